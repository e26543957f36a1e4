"""The files of an export: written into a temporary folder, then put in place together.

An export directory belongs to its user. What is replaced or removed there is only what an earlier export wrote and
nobody has changed since: `MANIFEST` records the digest of each file written. What else may happen to a file that is in
the way, each `Part` says.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from deepspeech_training import log
from deepspeech_training.config import ExportConfig
from deepspeech_training.errors import ExportError
from deepspeech_training.export.checks import check_directory
from deepspeech_training.storage import flush

MANIFEST = '.deepspeech_export.json'
"""Name of the file that records what an export wrote: a JSON object, file name to SHA-256 in hexadecimal."""

SUFFIXES = ('.pb', '.tflite', '.onnx', '.zip')
"""Of the files of a model."""

Writer = Callable[[Path], None]
"""Writes one file of the export, or a folder with files, under the name it is given, which does not exist yet."""


@dataclass(frozen=True)
class Part:
    """One file of an export, or one folder, and what becomes of a foreign file of that name.

    Foreign is what no export wrote, or somebody edited since. 'replace': it is lost, as with DeepSpeech's export of a
    model. 'keep': it stays, with a warning, and the part is not written. 'refuse': the export fails.
    """

    write: Writer
    foreign: Literal['replace', 'keep', 'refuse'] = 'refuse'


def part_of_bytes(content: bytes, foreign: Literal['replace', 'keep', 'refuse'] = 'refuse') -> Part:
    """A file with `content`."""

    def write(path: Path) -> None:
        path.write_bytes(content)

    return Part(write, foreign)


def model_file(export: ExportConfig, suffix: str) -> str:
    """File name of the model: --export_file_name, which may have been given with a suffix, and `suffix`."""
    stem, known = os.path.splitext(export.file_name)
    return (stem if known in SUFFIXES else export.file_name) + suffix


def write_export(export_dir: str, parts: Mapping[str, Part], *, remove_earlier: bool) -> list[str]:
    """Writes the parts of one export; all of them or, when one fails, none.

    `parts`: by their names below `export_dir`, with `/` between folders.
    With `remove_earlier`, files of earlier exports that this one did not write again are removed at the end.
    Returns the names of the files now in place from this export. Raises `ExportError`, with earlier exports untouched.
    """
    check_directory(export_dir)
    folder = Path(export_dir)
    staging: str | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        staging = tempfile.mkdtemp(prefix='.export.', suffix='.tmp', dir=folder)
        return _stage_and_place(folder, Path(staging), parts, remove_earlier=remove_earlier)
    except OSError as error:
        path = error.filename2 or error.filename or export_dir  # of a renaming, the name that is asked for
        raise ExportError(f'--export_dir={export_dir}: cannot write {path}: {error.strerror or error}') from error
    finally:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)


def _stage_and_place(folder: Path, staging: Path, parts: Mapping[str, Part], *, remove_earlier: bool) -> list[str]:
    earlier = _read_manifest(folder)
    staged = staging / 'new'
    written: dict[str, str] = {}
    for name, part in parts.items():
        if part.foreign == 'keep' and _is_foreign(folder, name, earlier):
            log.warn(
                f'{folder / name} was not written by an export, or edited since: it stays as it is; '
                'remove it to have it written'
            )
            continue
        (staged / name).parent.mkdir(parents=True, exist_ok=True)
        part.write(staged / name)
        files = [path.relative_to(staged).as_posix() for path in _files(staged / name)]
        if part.foreign == 'refuse':
            _refuse_foreign(folder, files, earlier)
        written |= {file: _digest(staged / file) for file in files}
    obsolete = [name for name in earlier if name not in {*written, *parts} and _unchanged(folder, name, earlier)]
    kept = {} if remove_earlier else {name: earlier[name] for name in obsolete}
    (staged / MANIFEST).write_text(json.dumps({**kept, **written}, indent=2) + '\n', encoding='utf-8')
    for path in _files(staged):
        flush(path)  # a power cut after the renaming shall not leave an empty file under the final name
    _check_place(staged, folder)
    _place(staged, folder)
    if remove_earlier:
        _remove(folder, obsolete)
    return list(written)


def _is_foreign(folder: Path, name: str, earlier: Mapping[str, str]) -> bool:
    return os.path.lexists(folder / name) and not _unchanged(folder, name, earlier)


def _refuse_foreign(folder: Path, names: list[str], earlier: Mapping[str, str]) -> None:
    for name in names:
        path = folder / name
        if path.is_file() and _is_foreign(folder, name, earlier):
            raise ExportError(
                f'{path} was not written by an export, or edited since: move it away, or export under another name'
            )


def _unchanged(folder: Path, name: str, earlier: Mapping[str, str]) -> bool:
    """Whether the file still is what the earlier export wrote under that name."""
    path = folder / name
    return name in earlier and path.is_file() and not path.is_symlink() and _digest(path) == earlier[name]


def _files(path: Path) -> Iterator[Path]:
    """`path` itself if it is a file, else all files below it, in a fixed order."""
    if not path.is_dir():
        yield path
        return
    for child in sorted(path.iterdir()):
        yield from _files(child)


def _check_place(staged: Path, target: Path) -> None:
    """Raises `OSError` where `_place` would fail after it has begun."""
    if not os.path.lexists(target):
        return
    if staged.is_dir() != target.is_dir():
        reason = errno.EISDIR if target.is_dir() else errno.ENOTDIR
        raise OSError(reason, os.strerror(reason), str(target))
    if staged.is_dir():
        if not os.access(target, os.W_OK | os.X_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(target))
        for child in staged.iterdir():
            _check_place(child, target / child.name)


def _place(staged: Path, target: Path) -> None:
    """Renames `staged` to `target`; a folder that is there already takes what is in the staged one.

    So a folder that is new appears with all its files: a server that watches for new versions sees no half of one.
    """
    if staged.is_dir() and target.is_dir():
        for child in sorted(staged.iterdir(), key=lambda child: child.name == MANIFEST):
            _place(child, target / child.name)
    else:
        os.replace(staged, target)


def _remove(folder: Path, names: list[str]) -> None:
    """Removes files of an earlier export, and the folders that are empty then."""
    for name in names:
        log.info(f'Removing {folder / name} of an earlier export')
        (folder / name).unlink()
        for parent in PurePosixPath(name).parents[:-1]:
            if any((folder / parent).iterdir()):
                break
            (folder / parent).rmdir()


def _read_manifest(folder: Path) -> dict[str, str]:
    """What earlier exports into `folder` wrote; nothing when there is no record that can be read."""
    try:
        record = json.loads((folder / MANIFEST).read_text(encoding='utf-8'))
    except (FileNotFoundError, UnicodeDecodeError, json.JSONDecodeError):
        return {}
    if not isinstance(record, dict):
        return {}
    return {name: str(digest) for name, digest in record.items() if _is_below(name)}


def _is_below(name: str) -> bool:
    """Whether `name` can only be that of a file below the export directory."""
    return PurePosixPath(name).as_posix() == name and not {'..', '/', '.', MANIFEST} & set(PurePosixPath(name).parts)


def _digest(path: Path) -> str:
    sha256 = hashlib.sha256()
    with path.open('rb') as file:
        while block := file.read(1 << 20):
            sha256.update(block)
    return sha256.hexdigest()
