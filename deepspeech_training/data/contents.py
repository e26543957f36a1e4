"""Which content an audio file has: a hash of its bytes, remembered so that files are read once, not in each run."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from typing import NamedTuple

import numpy as np

from deepspeech_training import storage
from deepspeech_training.data.journal import CHECKSUM, KEY, Journal, RowIndex
from deepspeech_training.data.sources import Source, read_source

HASH_SIZE = 32  # bytes
SETTLED_SECONDS = 3.0
"""A file that changed since is not remembered: it may change again within one tick of its file system's clock."""

ROW = np.dtype(
    [
        (KEY, 'V16'),  # hash of the absolute path
        ('size', '<i8'),  # bytes
        ('mtime', '<i8'),  # nanoseconds
        ('ctime', '<i8'),  # also tells a file that was put in another's place with its times kept
        ('content', f'V{HASH_SIZE}'),
        ('inode', '<u4'),  # its last bits
        (CHECKSUM, '<u4'),
    ]
)
SIGNATURE = ('size', 'mtime', 'ctime', 'inode')
SUFFIX = '.audio'
TITLE = b'DeepSpeech audio hashes 1\n'


class Content(NamedTuple):
    """An audio file as it was read."""

    hash: bytes  # HASH_SIZE
    bytes: bytes


class ContentMemory:
    """Hashes of audio files by path, size, times of change and inode; threads and processes may share it.

    It never raises because it cannot be read or written: then files are read again.
    """

    def __init__(self, folder: str) -> None:
        self._journal = Journal(folder, SUFFIX, ROW, TITLE)
        self._known = RowIndex(ROW)
        self._lock = threading.Lock()
        self._writable = True
        self._elsewhere: dict[str, tuple[int, ...]] = {}  # signatures of what is not on this host

    def refresh(self) -> None:
        """Takes up what other processes have found out."""
        with self._lock:
            for _, rows in self._journal.read_new():
                self._known.add(rows)
            self._elsewhere.clear()

    def recall(self, path: str, source: Source | None = None) -> bytes | None:
        """The hash of the audio's content; None when it is not known, or the file has changed. Raises `OSError`.

        `source`: where it is, if it is no local file of its own; then `path` is its name.
        """
        signature = _signature(os.stat(path)) if source is None else self._signature_of(source)
        with self._lock:
            row = self._known.get(_path_key(path))
        if row is None or tuple(row[name] for name in SIGNATURE) != signature:
            return None
        return bytes(row['content'].tobytes())

    def read(self, path: str, source: Source | None = None) -> Content:
        """Reads and hashes audio, and remembers it if the file did not change meanwhile or just before.

        Raises:
          OSError: it cannot be read.
          DataError: it is not where `source` says.
        """
        if source is not None:
            return self._read_source(path, source)
        with open(path, 'rb', buffering=0) as file:
            now = time.time()
            before = os.fstat(file.fileno())
            content = file.readall()
            after = os.fstat(file.fileno())
        found = Content(hashlib.blake2b(content, digest_size=HASH_SIZE).digest(), content)
        settled = now - before.st_ctime > SETTLED_SECONDS
        if settled and _signature(before) == _signature(after) and before.st_size == len(content):
            self._remember(path, _signature(before), found.hash)
        return found

    def _read_source(self, path: str, source: Source) -> Content:
        now, before = time.time(), self._signature_of(source)
        content = read_source(path, source)
        found = Content(hashlib.blake2b(content, digest_size=HASH_SIZE).digest(), content)
        settled = storage.is_remote(source.file) or now - before[2] / 1e9 > SETTLED_SECONDS
        if settled and before == self._signature_of(source):
            self._remember(path, before, found.hash)
        return found

    def _signature_of(self, source: Source) -> tuple[int, ...]:
        """Of what contains the audio. That of a remote file is asked for once in an epoch. Raises `OSError`."""
        if not storage.is_remote(source.file):
            return _signature(os.stat(source.file))
        signature = self._elsewhere.get(source.file)
        if signature is None:
            signature = self._elsewhere[source.file] = (*storage.status(source.file), 0, 0)
        return signature

    def _remember(self, path: str, signature: tuple[int, ...], content: bytes) -> None:
        row = np.zeros([], ROW)
        row[KEY], row['content'] = _path_key(path), content
        for name, value in zip(SIGNATURE, signature, strict=True):
            row[name] = value
        with self._lock:
            self._known.add(row.reshape(1))
            if self._writable:
                try:
                    self._journal.append(row)
                except OSError:  # said by the features, which take more room
                    self._writable = False


def _path_key(path: str) -> bytes:
    name = storage.absolute(path).encode(errors='surrogateescape')
    return hashlib.blake2b(name, digest_size=16).digest()


def _signature(status: os.stat_result) -> tuple[int, ...]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino & 0xFFFFFFFF
