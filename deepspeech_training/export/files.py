"""The files of an export: written under temporary names, then put in place together.

An export directory belongs to its user. What is replaced or removed there is only what an earlier export wrote and
nobody has changed since: `MANIFEST` records the digest of each file written. The one exception is the model file of
the very name that was asked for, which an export replaces as DeepSpeech's did.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from deepspeech_training import log
from deepspeech_training.errors import ExportError
from deepspeech_training.export.checks import check_directory

MANIFEST = '.deepspeech_export.json'
"""Name of the file that records what an export wrote: a JSON object, file name to SHA-256 in hexadecimal."""

Writer = Callable[[Path], None]
"""Writes one file of the export under the name it is given."""


def write_export(export_dir: str, model: str, writers: Mapping[str, Writer], *, remove_earlier: bool) -> list[str]:
    """Writes the files of one export; all of them or, when one fails, none.

    `model` is the one of the names in `writers` that replaces whatever file has that name. The other files replace only
    what an earlier export wrote; one that is foreign or was edited since stays, with a warning.
    With `remove_earlier`, files of earlier exports that this one did not write again are removed at the end.
    Returns the names now in place from this export. Raises `ExportError`, with earlier exports untouched.
    """
    check_directory(export_dir)
    folder = Path(export_dir)
    temporary = {name: folder / f'.{name}.{os.getpid()}.tmp' for name in (*writers, MANIFEST)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        earlier = _read_manifest(folder)
        names = [name for name in writers if name == model or _may_replace(folder / name, earlier)]
        for name in names:
            writers[name](temporary[name])
            _flush(temporary[name])
        written = {name: _digest(temporary[name]) for name in names}
        obsolete = [name for name in earlier if name not in writers and _unchanged(folder / name, earlier)]
        kept = {} if remove_earlier else {name: earlier[name] for name in obsolete}
        temporary[MANIFEST].write_text(json.dumps({**kept, **written}, indent=2) + '\n', encoding='utf-8')
        _flush(temporary[MANIFEST])
        for name in (*names, MANIFEST):
            os.replace(temporary[name], folder / name)
        for name in obsolete if remove_earlier else ():
            log.info(f'Removing {folder / name} of an earlier export')
            (folder / name).unlink()
    except OSError as error:
        path = error.filename2 or error.filename or export_dir  # of a renaming, the name that is asked for
        raise ExportError(f'--export_dir={export_dir}: cannot write {path}: {error.strerror or error}') from error
    finally:
        for path in temporary.values():
            path.unlink(missing_ok=True)
    return names


def _may_replace(path: Path, earlier: Mapping[str, str]) -> bool:
    """Whether nothing is lost when `path` is written; says so if it stays."""
    if not path.exists() or _unchanged(path, earlier):
        return True
    log.warn(f'{path} was not written by an export, or edited since: it stays as it is; remove it to have it written')
    return False


def _unchanged(path: Path, earlier: Mapping[str, str]) -> bool:
    """Whether `path` still is what the earlier export wrote under that name."""
    return path.name in earlier and path.is_file() and not path.is_symlink() and _digest(path) == earlier[path.name]


def _read_manifest(folder: Path) -> dict[str, str]:
    """What earlier exports into `folder` wrote; nothing when there is no record that can be read."""
    try:
        record = json.loads((folder / MANIFEST).read_text(encoding='utf-8'))
    except (FileNotFoundError, UnicodeDecodeError, json.JSONDecodeError):
        return {}
    if not isinstance(record, dict):
        return {}
    return {name: str(digest) for name, digest in record.items() if name == os.path.basename(name) and name != MANIFEST}


def _digest(path: Path) -> str:
    sha256 = hashlib.sha256()
    with path.open('rb') as file:
        while block := file.read(1 << 20):
            sha256.update(block)
    return sha256.hexdigest()


def _flush(path: Path) -> None:
    """To the disk, so that a power cut after the renaming cannot leave an empty file under the final name."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
