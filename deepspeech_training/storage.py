"""Files wherever they are: local paths, and through fsspec addresses such as gs://, s3://, hdfs:// or memory://.

What goes wrong is an `OSError` with a reason in `strerror`, whatever library has found it out. Local paths never come
near fsspec.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import re
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple

ADDRESS = re.compile(r'^([a-zA-Z][a-zA-Z0-9+.-]+)://')
VERSION_KEYS = ('mtime', 'LastModified', 'last_modified', 'updated', 'modificationTime', 'ETag', 'etag', 'generation')
"""What file systems call that which changes with a file's content."""
PACKAGES = {
    **{'s3': 's3fs', 's3a': 's3fs', 'gs': 'gcsfs', 'gcs': 'gcsfs', 'hdfs': 'pyarrow', 'webhdfs': 'requests'},
    **{'abfs': 'adlfs', 'abfss': 'adlfs', 'az': 'adlfs', 'http': 'aiohttp', 'https': 'aiohttp', 'sftp': 'paramiko'},
    **{'ssh': 'paramiko', 'smb': 'smbprotocol'},
}
"""What fsspec needs for a protocol."""


class Status(NamedTuple):
    """What tells whether a file has changed."""

    size: int  # bytes
    version: int  # of a local file, the time of its last change in nanoseconds; fits 64 bits


def cache_folder(name: str) -> str:
    """The program's folder `name` among the user's caches. It may not be there yet."""
    caches = os.environ.get('XDG_CACHE_HOME', '')
    if not os.path.isabs(caches):  # as the XDG Base Directory Specification wants it
        caches = os.path.join(os.path.expanduser('~'), '.cache')
    return os.path.join(caches, 'deepspeech_training', name)


def is_remote(path: str) -> bool:
    """Whether it is an address, as in gs://bucket/name, not a local path."""
    return ADDRESS.match(path) is not None


def absolute(path: str) -> str:
    """A name for the same file that does not depend on the current folder."""
    return path if is_remote(path) else os.path.abspath(path)


def folder_of(path: str) -> str:
    """What relative names beside a file are appended to: '' or a folder with the slash behind it."""
    return path[: path.rfind('/') + 1] if is_remote(path) else os.path.join(os.path.dirname(path), '')


def join(folder: str, name: str) -> str:
    """The path of `name` in a folder."""
    return f'{folder.rstrip("/")}/{name}' if is_remote(folder) else os.path.join(folder, name)


def status(path: str) -> Status:
    """Of a file. Raises `OSError`; for what is no file, with the reason."""
    if not is_remote(path):
        found = os.stat(path)
        return Status(found.st_size, found.st_mtime_ns)
    with translated(path):
        system, inside = file_system(path)
        info = system.info(inside)
    if info['type'] == 'directory':
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return status_of(info)


def status_of(info: Mapping[str, Any]) -> Status:
    """From what fsspec says about a file."""
    values = [info.get(key) for key in (*VERSION_KEYS, 'created')]
    version = repr([value.timestamp() if isinstance(value, datetime) else value for value in values])
    digest = hashlib.blake2b(version.encode(), digest_size=7).digest()
    return Status(info['size'] or 0, int.from_bytes(digest, 'big'))


def read(path: str, start: int = 0, size: int | None = None) -> bytes:
    """The bytes of a file from `start` on, at most `size` of them. Raises `OSError`."""
    if is_remote(path):
        with translated(path):
            system, inside = file_system(path)
            if not start and size is None:
                return bytes(system.cat_file(inside))
            return bytes(system.cat_file(inside, start=start, end=None if size is None else start + size))
    with open(path, 'rb', buffering=0) as file:
        if start:
            file.seek(start)
        return file.readall() if size is None else _read_exactly(file, size)


def _read_exactly(file: io.FileIO, size: int) -> bytes:
    """`size` bytes, or what is left: one call of the system may give less."""
    content = file.read(size) or b''
    while len(content) < size and (more := file.read(size - len(content))):
        content += more
    return content


@contextlib.contextmanager
def open_to_read(path: str) -> Iterator[BinaryIO]:
    """A file to read from any place in it. Raises `OSError`."""
    if not is_remote(path):
        with open(path, 'rb') as file:
            yield file
        return
    with translated(path):
        system, inside = file_system(path)
        with system.open(inside, 'rb') as file:
            yield file


def names_like(pattern: str) -> list[str]:
    """The files that a pattern with `*`, `?` or `[...]` fits, sorted. Raises `OSError`."""
    if not is_remote(pattern):
        import glob

        return sorted(path for path in glob.glob(pattern) if os.path.isfile(path))
    with translated(pattern):
        system, inside = file_system(pattern)
        protocol = pattern[: pattern.index('://') + 3]
        return sorted(protocol + str(name).split('://')[-1] for name in system.glob(inside))


def file_system(address: str) -> tuple[Any, str]:
    """What fsspec reads and writes an address with, and the name of the file there. Raises `OSError`."""
    import fsspec

    protocol = address[: address.index('://')]
    try:
        system, inside = fsspec.core.url_to_fs(address)
    except ImportError as error:
        package = PACKAGES.get(protocol.lower())
        way_out = f'needs the package {package}: pip install {package}' if package else str(error)
        raise OSError(errno.EPROTONOSUPPORT, f'{protocol}:// {way_out}', address) from error
    except ValueError as error:
        raise OSError(errno.EPROTONOSUPPORT, f'fsspec knows no file system for {protocol}://', address) from error
    return system, inside


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Turns what the libraries below fsspec raise into `OSError` with a reason."""
    try:
        yield
    except OSError as error:
        if error.strerror:
            raise
        number = error.errno or {FileNotFoundError: errno.ENOENT, PermissionError: errno.EACCES}.get(type(error))
        reason = os.strerror(number) if number else _reason(error)
        raise OSError(number or errno.EIO, reason, path) from error
    except Exception as error:
        raise OSError(errno.EIO, _reason(error), path) from error


def _reason(error: Exception) -> str:
    return ' '.join(f'{type(error).__name__}: {error}'.split())


@contextlib.contextmanager
def written_whole(path: str, *, durable: bool = False) -> Iterator[str]:
    """The name of a local file to write; it becomes `path` when it is done, and is gone when that fails.

    `durable`: a file that is here is on the disk before it has its name, so that a power cut leaves no empty one.
    Raises `OSError`.
    """
    if is_remote(path):
        with tempfile.TemporaryDirectory() as folder:
            unfinished = os.path.join(folder, 'file')
            yield unfinished
            upload(unfinished, path)
        return
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    unfinished = f'{path}.{uuid.uuid4().hex}.tmp'
    try:
        yield unfinished
        if durable:
            flush(unfinished)
        os.replace(unfinished, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)


def write_whole(path: str, content: bytes) -> None:
    """Writes a file so that readers find the old or the new content, never a part. Raises `OSError`."""
    with written_whole(path) as unfinished, open(unfinished, 'xb') as file:
        file.write(content)


def flush(path: str | os.PathLike[str]) -> None:
    """Waits until a local file, or the names in a local folder, are on the disk. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def upload(local: str, address: str) -> None:
    """Copies a local file to an address. Raises `OSError`."""
    with translated(address):
        system, inside = file_system(address)
        system.makedirs(system._parent(inside), exist_ok=True)
        system.put_file(local, inside)
