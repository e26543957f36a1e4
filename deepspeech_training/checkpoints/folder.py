"""A folder of checkpoints: which there are, whether they are whole, and how a new one gets there.

A checkpoint is `train-STEP.index` and `train-STEP.data-00000-of-00001`, in TensorFlow's format, and, unless DeepSpeech
wrote it, `train-STEP.json` with the state of the run, a description of the model and the checksums of the two. The
newest one and those before it are named by the state file `checkpoint`; the best by dev loss is `best_dev-STEP`, named
by `best_dev_checkpoint`. All names are relative to the folder, so that it can be moved.

A new checkpoint is written under a temporary name, and given its own when the disk has all of it; the state file
changes last. Whatever interrupts that, what was there before stays and is still named.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deepspeech_training import log
from deepspeech_training.checkpoints.tensors import SUFFIXES, writing
from deepspeech_training.errors import CheckpointError
from deepspeech_training.storage import flush

TEMPORARY = '.writing-'
STATE_SUFFIX = '.json'
BLOCK = 1 << 20  # bytes read at a time


@dataclass(frozen=True)
class Kind:
    """One of the two series of checkpoints in a folder."""

    prefix: str
    state_file: str


LAST = Kind('train', 'checkpoint')
BEST = Kind('best_dev', 'best_dev_checkpoint')


@dataclass(frozen=True)
class Found:
    """A checkpoint: its path without suffix, and its series."""

    path: str
    kind: Kind

    @property
    def step(self) -> int:
        """The step in its name, -1 when there is none."""
        match = re.search(r'-(\d+)(?:-\d+)?$', os.path.basename(self.path))
        return int(match[1]) if match else -1


def named_checkpoints(folder: str, kind: Kind, *, warn: bool = True) -> list[Found]:
    """The checkpoints that the state file names, newest first, whether they are whole or not.

    A state file that is damaged names none; then all files of the series count, the latest written first, and a
    warning says so.

    Raises `CheckpointError` when the folder cannot be read.
    """
    path = os.path.join(folder, kind.state_file)
    try:
        with open(path, encoding='utf-8') as file:
            lines = re.findall(r'^\s*(\w+)\s*:\s*"((?:[^"\\]|\\.)*)"', file.read(), re.MULTILINE)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except UnicodeDecodeError:
        lines = []
    except OSError as error:
        raise CheckpointError(f'{path} cannot be read: {error.strerror}') from None
    newest = [_unescape(value) for name, value in lines if name == 'model_checkpoint_path']
    if not newest:
        found = _all_of(folder, kind)
        if not found:
            raise CheckpointError(f'{path}: damaged, it names no checkpoint; remove it to go on without it')
        if warn:
            log.warn(f'{path}: damaged, it names no checkpoint; taking {found[0].path}')
        return found
    older = [_unescape(value) for name, value in lines if name == 'all_model_checkpoint_paths']
    names = [newest[-1], *(name for name in reversed(older) if name != newest[-1])]
    return [Found(_locate(folder, name), kind) for name in names]


def find_checkpoint(folder: str, kind: Kind) -> str | None:
    """The path, without suffix, of the newest checkpoint of a series that the state file names; None without one."""
    named = named_checkpoints(folder, kind)
    return named[0].path if named else None


def _unescape(text: str) -> str:
    """A string of protocol buffers' text format, as far as names of files go."""
    plain = re.sub(rb'\\([0-7]{1,3})', lambda match: bytes([int(match[1], 8)]), text.encode())
    return re.sub(rb'\\(.)', rb'\1', plain).decode('utf-8', 'surrogateescape')


def _locate(folder: str, name: str) -> str:
    """State files of DeepSpeech hold absolute paths; the folder may have moved since."""
    here = os.path.join(folder, os.path.basename(name))
    return here if os.path.exists(f'{here}.index') or not os.path.exists(f'{name}.index') else name


def _all_of(folder: str, kind: Kind) -> list[Found]:
    names = [name for name in os.listdir(folder) if re.fullmatch(rf'{kind.prefix}-[\d-]+\.index', name)]
    names.sort(key=lambda name: os.path.getmtime(os.path.join(folder, name)), reverse=True)
    return [Found(os.path.join(folder, name[: -len('.index')]), kind) for name in names]


def what_is_wrong(found: Found) -> str:
    """Why a checkpoint cannot be used; '' when its files are there and, where it has checksums, whole."""
    if not os.path.exists(found.path + SUFFIXES[0]):
        return f'there is no {found.path}{SUFFIXES[0]}'
    try:
        state = read_state(found)
    except CheckpointError as error:
        return str(error)
    if state is None:
        return ''
    for name, (size, checksum) in state['files'].items():
        path = os.path.join(os.path.dirname(found.path), name)
        try:
            if os.path.getsize(path) != size:
                return f'{name} has {os.path.getsize(path)} bytes instead of {size}'
            if checksum_of(path) != checksum:
                return f'{name} is damaged (its checksum is wrong)'
        except OSError as error:
            return f'{name}: {error.strerror}'
    return ''


def read_state(found: Found) -> dict[str, Any] | None:
    """The JSON beside a checkpoint; None where DeepSpeech wrote it. Raises `CheckpointError` for a damaged one."""
    path = found.path + STATE_SUFFIX
    try:
        with open(path, encoding='utf-8') as file:
            state = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise CheckpointError(f'{path} is damaged: {error}') from None
    if not isinstance(state, dict) or not isinstance(state.get('files'), dict):
        raise CheckpointError(f'{path} is damaged: it lacks the checksums')
    return state


def run_of(found: Found) -> str | None:
    """The name of the training that wrote a checkpoint; None where DeepSpeech did, or its state is damaged."""
    try:
        state = read_state(found)
        return None if state is None else str(state['run']['run'])
    except (CheckpointError, KeyError, TypeError):
        return None


def checksum_of(path: str) -> int:
    """CRC-32 of a file."""
    checksum = 0
    with open(path, 'rb') as file:
        while block := file.read(BLOCK):
            checksum = zlib.crc32(block, checksum)
    return checksum


def commit(
    folder: str, kind: Kind, step: int, write: Callable[[str], None], state: Mapping[str, Any], max_to_keep: int
) -> Found:
    """Adds a checkpoint; returns it. `write` is given a prefix and writes the two files of tensors.

    Then removes those of its series beyond `max_to_keep` that the same training has written.

    Raises `CheckpointError`: nothing of the new checkpoint is left, and what was there before is as it was.
    """
    found = Found(os.path.join(folder, _free_name(folder, kind, step)), kind)
    temporary = os.path.join(folder, f'{TEMPORARY}{os.getpid()}-{os.path.basename(found.path)}')
    with writing(found.path):
        os.makedirs(folder, exist_ok=True)
        try:
            write(temporary)
            _write_state(found, temporary, state)
            for suffix in (STATE_SUFFIX, *SUFFIXES):  # the state says whose the others are
                os.replace(temporary + suffix, found.path + suffix)
            _sync_folder(folder)
            dropped = _add_to_state_file(folder, found, max_to_keep)
        except BaseException:
            _remove(found.path)
            for name in _names_in(folder):
                if name.startswith(os.path.basename(temporary)):  # TensorFlow adds suffixes of its own meanwhile
                    with contextlib.suppress(OSError):
                        os.remove(os.path.join(folder, name))
            raise
    for old in dropped:
        if run_of(old) == state['run']['run']:
            _remove(old.path)
    return found


def _remove(path: str) -> None:
    """A checkpoint's files, as far as they are there; the state file does not name them."""
    for suffix in (*SUFFIXES, STATE_SUFFIX):
        with contextlib.suppress(OSError):
            os.remove(path + suffix)


def _free_name(folder: str, kind: Kind, step: int) -> str:
    """A second checkpoint of the same step gets a name of its own: a good one is never overwritten."""
    name, number = f'{kind.prefix}-{step}', 1
    while any(os.path.exists(os.path.join(folder, name + suffix)) for suffix in (*SUFFIXES, STATE_SUFFIX)):
        number += 1
        name = f'{kind.prefix}-{step}-{number}'
    return name


def _write_state(found: Found, temporary: str, state: Mapping[str, Any]) -> None:
    name = os.path.basename(found.path)
    files = {
        name + suffix: [os.path.getsize(temporary + suffix), checksum_of(temporary + suffix)] for suffix in SUFFIXES
    }
    with open(temporary + STATE_SUFFIX, 'w', encoding='utf-8') as file:
        json.dump({**state, 'files': files}, file, ensure_ascii=False, indent=1)
        file.flush()
        os.fsync(file.fileno())


def _add_to_state_file(folder: str, found: Found, max_to_keep: int) -> list[Found]:
    """Names `found` as the newest, with what stays of those before; returns those that it does not name any more."""
    try:
        before = named_checkpoints(folder, found.kind, warn=False)
    except CheckpointError:
        before = []
    here = [other for other in before if os.path.dirname(other.path) == folder and other.path != found.path]
    kept = [found, *here][:max_to_keep]
    text = f'model_checkpoint_path: {_quoted(found)}\n'
    text += ''.join(f'all_model_checkpoint_paths: {_quoted(each)}\n' for each in reversed(kept))
    temporary = os.path.join(folder, f'{TEMPORARY}{os.getpid()}-{found.kind.state_file}')
    try:
        with open(temporary, 'w', encoding='utf-8') as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, os.path.join(folder, found.kind.state_file))
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise
    _sync_folder(folder)
    return here[max_to_keep - 1 :]


def _quoted(found: Found) -> str:
    return json.dumps(os.path.basename(found.path))


def _sync_folder(folder: str) -> None:
    """Makes the folder's names last; not all file systems can."""
    with contextlib.suppress(OSError):
        flush(folder)


def remove_leftovers(folder: str) -> list[str]:
    """Removes what interrupted writing has left behind; returns the names of the files.

    These are files with temporary names, and checkpoints of the training that wrote the newest one which the state
    file does not name, or does not name any more. Checkpoints of other trainings, and of DeepSpeech, stay.
    """
    removed = []
    names = _names_in(folder)
    for name in names:
        if name.startswith(TEMPORARY) and not _is_being_written(name):
            removed.append(name)
    for kind in (LAST, BEST):
        removed += _unnamed(folder, kind, names)
    for name in removed:
        with contextlib.suppress(OSError):
            os.remove(os.path.join(folder, name))
    return removed


def _unnamed(folder: str, kind: Kind, names: list[str]) -> list[str]:
    pattern = re.compile(rf'({kind.prefix}-\d+(?:-\d+)?)({"|".join(map(re.escape, (*SUFFIXES, STATE_SUFFIX)))})')
    try:
        named = named_checkpoints(folder, kind, warn=False)
    except CheckpointError:
        return []
    run = run_of(named[0]) if named else None
    if run is None:
        return []
    known = {os.path.basename(found.path) for found in named}
    unnamed = [match for match in map(pattern.fullmatch, names) if match and match[1] not in known]
    return [match[0] for match in unnamed if run_of(Found(os.path.join(folder, match[1]), kind)) == run]


def _names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _is_being_written(name: str) -> bool:
    """Whether the process whose number is in a temporary name is alive (on this machine)."""
    number = name[len(TEMPORARY) :].split('-')[0]
    try:
        os.kill(int(number), 0)
    except (ValueError, ProcessLookupError):
        return False
    except OSError:
        pass
    return int(number) != os.getpid()
