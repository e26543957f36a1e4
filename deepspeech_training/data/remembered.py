"""What earlier runs found out about audio files, so that the next run starts at once."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from deepspeech_training import log, storage

VERSION = 2  # of the format and of what makes a file sound; another one counts as nothing remembered
FOLDER = 'checked_audio'


class AudioFacts(NamedTuple):
    """What was found in an audio file, and when and how large the file, or what contains it, was then.

    They do not depend on the run's settings (alphabet, features): those are applied to them anew each time.
    """

    size: int  # bytes
    mtime: int  # nanoseconds, or another number that changes with the file
    frames: int  # samples of each channel
    sample_rate: int  # Hz
    channels: int


def memory_folder(save_dir: str) -> str:
    """Where to remember: in the checkpoint directory, where there is one, else in the user's folder for caches."""
    return os.path.join(save_dir, FOLDER) if save_dir else storage.cache_folder(FOLDER)


class AudioMemory:
    """What is remembered of the audio files of one CSV file: one compressed JSON file in `folder`.

    Runs at the same time may share it: it is always replaced as a whole. A damaged file (gzip's checksum tells) or
    one that cannot be read or written costs time, never a run.
    """

    def __init__(self, folder: str, csv: str) -> None:
        absolute = storage.absolute(csv)
        digest = hashlib.sha256(absolute.encode(errors='surrogateescape')).hexdigest()[:16]
        self.path = os.path.join(folder, f'{os.path.basename(absolute)}-{digest}.json.gz')
        # Audio files are named as in the CSV file, so that it does not matter from where the program is started.
        self._prefix = storage.folder_of(re.split(r'[*?{\[]', csv)[0])  # of all files that a pattern names
        self._stored: dict[str, AudioFacts] | None = None

    def recall(self) -> dict[str, AudioFacts]:
        """Facts by the path of the audio file; empty where nothing (sound) is stored."""
        try:
            with gzip.open(self.path, 'rb') as file:
                content = json.load(file)
            if content['version'] != VERSION:
                return {}
            facts = {
                name if os.path.isabs(name) or storage.is_remote(name) else self._prefix + name: AudioFacts(*values)
                for name, values in content['audio'].items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
            log.debug(f'{self.path}: cannot be used, audio files are looked at again: {error!r}')
            return {}
        self._stored = facts
        return facts

    def store(self, facts: Mapping[str, AudioFacts]) -> None:
        """Remembers these facts instead of what was stored."""
        if facts == self._stored:
            return
        audio = {path.removeprefix(self._prefix): values for path, values in facts.items()}
        content = json.dumps({'version': VERSION, 'audio': audio}, separators=(',', ':'))
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            storage.write_whole(self.path, gzip.compress(content.encode(), compresslevel=1))
        except OSError as error:
            log.debug(f'{self.path}: cannot be written, the next run looks at the audio files again: {error}')


@contextmanager
def one_at_a_time(folder: str, csv_files: Sequence[str]) -> Iterator[None]:
    """Of the processes that look at the same CSV files, the first does so alone; then the others find what it stored.

    These go on side by side, for they only compare. Where `folder` cannot be written, or its file system knows no
    locks, nobody waits.
    """
    if not csv_files:
        yield
        return
    names = '\n'.join(sorted(map(storage.absolute, csv_files)))
    digest = hashlib.sha256(names.encode(errors='surrogateescape')).hexdigest()[:16]
    try:
        os.makedirs(folder, exist_ok=True)
        file = open(os.path.join(folder, f'{digest}.lock'), 'ab+')  # noqa: SIM115 - closed below
    except OSError as error:
        log.debug(f'{folder}: cannot be written, data are checked without a lock: {error}')
        yield
        return
    with file:
        _wait_for_lock(file.fileno())
        yield


def _wait_for_lock(descriptor: int) -> None:
    """Until the file is closed; the system ends the lock of a process that was killed."""
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info('Another process is checking the same data: waiting for it')
            fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError as error:
        log.debug(f'no lock, data are checked without: {error}')
