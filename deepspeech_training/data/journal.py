"""Tables on disk that several processes add rows to at once: append-only files, one a writer, read by all.

    file = header, row, row, ...      each row begins with its key and ends with a checksum of itself

What a process that was killed or a full disk has left half written is never read.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import uuid
import zlib

import numpy as np

HEADER_SIZE = 64  # bytes
KEY = 'key'
"""The first field of each row, `V16` or longer: random bytes, as of a hash."""
CHECKSUM = 'crc'
"""The last field of each row, `<u4`: CRC-32 of the bytes before it."""


class Descriptor:
    """An open file that is closed with the last reference to it: a thread may still use it when others let go."""

    def __init__(self, path: str, flags: int) -> None:
        self._number = -1
        self._number = os.open(path, flags | os.O_CLOEXEC, 0o666)

    def fileno(self) -> int:
        return self._number

    def __del__(self) -> None:
        if self._number >= 0:
            os.close(self._number)


class RowIndex:
    """Rows by key, in little more memory than the rows take: sorted arrays, and a dictionary of the newest."""

    def __init__(self, row: np.dtype) -> None:
        self._rows = np.empty(0, row)
        self._starts = _starts(self._rows)
        self._new: dict[bytes, np.ndarray] = {}

    def __len__(self) -> int:
        """Number of rows; some may have been replaced by others."""
        return len(self._rows) + len(self._new)

    def get(self, key: bytes) -> np.ndarray | None:
        """The row that was added last, an array `[]`."""
        found = self._new.get(key)
        if found is None and (place := self._place(key)) is not None:
            found = self._rows[place : place + 1].reshape(())
        return found

    def add(self, rows: np.ndarray) -> None:
        """Adds rows `[count]`."""
        if len(rows) <= self._many():
            for number in range(len(rows)):
                row = rows[number : number + 1].reshape(()).copy()
                self._new[row[KEY].tobytes()] = row
            rows = rows[:0]
        if len(rows) or len(self._new) > self._many():
            newest_first = [rows[::-1], *(row.reshape(1) for row in self._new.values()), self._rows]
            together = np.concatenate(newest_first)
            order = np.argsort(_starts(together), kind='stable')
            self._rows, self._new = together[order], {}
            self._starts = _starts(self._rows)

    def remove(self, key: bytes) -> None:
        """Takes out what `get` returns; an older row with the same key comes in its place."""
        if self._new.pop(key, None) is None and (place := self._place(key)) is not None:
            self._rows, self._starts = np.delete(self._rows, place), np.delete(self._starts, place)

    def _place(self, key: bytes) -> int | None:
        start = np.frombuffer(key, np.uint64, 1)[0]
        place = int(np.searchsorted(self._starts, start))
        while place < len(self._starts) and self._starts[place] == start:
            if self._rows[place][KEY].tobytes() == key:
                return place
            place += 1
        return None

    def _many(self) -> int:
        return max(4096, len(self._rows) // 4)


def _starts(rows: np.ndarray) -> np.ndarray:
    """The first 8 bytes of each key: uint64 `[count]`."""
    keys = np.ascontiguousarray(rows[KEY])
    return np.ascontiguousarray(keys.view(np.uint8).reshape(len(rows), keys.itemsize)[:, :8]).view(np.uint64).ravel()


def sealed(row: np.ndarray) -> bytes:
    """A row (an array `[]`) as it stands in a file: with its checksum."""
    content = row.tobytes()[:-4]
    return content + zlib.crc32(content).to_bytes(4, 'little')


def _sound(rows: np.ndarray) -> np.ndarray:
    """Those of `rows` [count] whose checksums are right."""
    size, content = rows.itemsize, memoryview(rows.tobytes())
    found = [zlib.crc32(content[start : start + size - 4]) for start in range(0, len(content), size)]
    return rows[rows[CHECKSUM] == np.array(found, np.uint32)]


class Journal:
    """The files of one table in `folder`, with names that end in `suffix`.

    `row`: the structured type of a row. `title`: the first bytes of each file. Not to be used by two threads at once.
    """

    def __init__(self, folder: str, suffix: str, row: np.dtype, title: bytes) -> None:
        self._folder = folder
        self._suffix = suffix
        self._row = row
        self._header = title.ljust(HEADER_SIZE, b'\0')
        self._done: dict[str, int] = {}  # bytes read of each file
        self._own: Descriptor | None = None
        self._own_path = ''

    def read_new(self) -> list[tuple[str, np.ndarray]]:
        """Path and rows `[count]` of each file that has rows which were not read, nor added by this journal."""
        found = []
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(self._folder)):
                if name.endswith(self._suffix):
                    path = os.path.join(self._folder, name)
                    with contextlib.suppress(OSError):
                        found.append((path, self._read_rest(path)))
        return [(path, rows) for path, rows in found if len(rows)]

    def _read_rest(self, path: str) -> np.ndarray:
        done = self._done.get(path, HEADER_SIZE)
        if os.stat(path).st_size < done + self._row.itemsize:
            return np.empty(0, self._row)
        with open(path, 'rb') as file:
            if file.read(HEADER_SIZE) != self._header:
                return np.empty(0, self._row)
            file.seek(done)
            content = file.read()
        whole = len(content) // self._row.itemsize * self._row.itemsize
        self._done[path] = done + whole
        return _sound(np.frombuffer(content[:whole], self._row))

    def open(self) -> str:
        """Opens the file that this process adds to, and returns its path. Raises `OSError`.

        It is one that an earlier process of this host has left, which its lock tells, or a new one: there are as many
        files as there were writers at a time, not as there were runs.
        """
        if self._own is not None:
            return self._own_path
        host = re.sub(r'[^\w.-]', '_', socket.gethostname())
        for name in sorted(os.listdir(self._folder)):
            if name.startswith(f'{host}-') and name.endswith(self._suffix):
                with contextlib.suppress(OSError):
                    self._take_over(os.path.join(self._folder, name))
            if self._own is not None:
                return self._own_path
        path = os.path.join(self._folder, f'{host}-{uuid.uuid4().hex[:12]}{self._suffix}')
        file = Descriptor(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        with contextlib.suppress(OSError):  # without locks, a file has one writer in its life
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        try:
            append_whole(file, self._header)
        except OSError:
            os.unlink(path)
            raise
        self._own, self._own_path = file, path
        return path

    def _take_over(self, path: str) -> None:
        """Goes on with another process's file, if that has ended. Raises `OSError`."""
        file = Descriptor(path, os.O_RDWR | os.O_APPEND)
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        size = os.fstat(file.fileno()).st_size
        if size < HEADER_SIZE or os.pread(file.fileno(), HEADER_SIZE, 0) != self._header:
            return
        torn = (size - HEADER_SIZE) % self._row.itemsize
        if torn:  # zeros are no row: their checksum is another
            append_whole(file, bytes(self._row.itemsize - torn))
        self._own, self._own_path = file, path

    def append(self, row: np.ndarray) -> None:
        """Adds a row (an array `[]`) to this process's file. Raises `OSError`; then it is not there."""
        path = self.open()
        assert self._own is not None
        before = append_whole(self._own, sealed(row))
        if self._done.get(path, HEADER_SIZE) == before:
            self._done[path] = before + self._row.itemsize

    def erase(self, path: str, row: np.ndarray) -> None:
        """Takes a row (an array `[]`, as read) out of a file, where that can be written."""
        with contextlib.suppress(OSError):
            file = Descriptor(path, os.O_RDWR)
            content, wanted = np.fromfile(path, np.uint8), np.frombuffer(sealed(row), np.uint8)
            whole = (len(content) - HEADER_SIZE) // len(wanted) * len(wanted)
            rows = content[HEADER_SIZE : HEADER_SIZE + whole].reshape(-1, len(wanted))
            for number in np.flatnonzero((rows == wanted).all(axis=1)):
                os.pwrite(file.fileno(), bytes(len(wanted)), HEADER_SIZE + int(number) * len(wanted))


def append_whole(file: Descriptor, content: bytes | memoryview) -> int:
    """Appends all of `content`, or nothing; returns where it begins. Raises `OSError`."""
    before = os.fstat(file.fileno()).st_size
    rest = memoryview(content)
    try:
        while rest:
            rest = rest[os.write(file.fileno(), rest) :]
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(file.fileno(), before)
        raise
    return before
