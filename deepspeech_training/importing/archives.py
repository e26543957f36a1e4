"""Archives (zip, tar however compressed, Debian packages), unpacked so that nothing is written outside."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, cast

from deepspeech_training import log
from deepspeech_training.errors import DataError

AR_MAGIC = b'!<arch>\n'
AR_HEADER = 60  # bytes: name 16, time 12, owner 6, group 6, mode 8, size 10, end 2
MARKS = ((0, b'PK\x03\x04'), (0, b'PK\x05\x06'), (0, AR_MAGIC), (257, b'ustar'))
COMPRESSED = (b'\x1f\x8b', b'BZh', b'\xfd7zXZ\x00')
DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError)

Advance = Callable[[float], None]


def is_archive(path: Path) -> bool:
    """Whether a file is one that `unpack` may know, by its first bytes."""
    with _reading(path), open(path, 'rb') as file:
        start = file.read(512)
    return start.startswith(COMPRESSED) or any(start[at : at + len(mark)] == mark for at, mark in MARKS)


def unpack(archive: Path, folder: Path, *, show_progress: bool = True) -> None:
    """Writes the files of an archive into `folder`; those that are there, whole, from an earlier attempt stay.

    Each file is written under another name (`.NAME.part`) and gets its own when it is complete. Raises `DataError` for
    what is no archive, is damaged, or has a member that would be written outside of `folder`, and for a full disk. Of
    a damaged archive nothing stays: its checksum may be at its end, and tells not which file is wrong.
    """
    if not is_archive(archive):
        raise DataError(f'{archive}: is no archive that can be unpacked (zip, tar, tar.gz, tar.bz2, tar.xz, deb)')
    size = round(archive.stat().st_size / 1e6, 1)
    with (
        log.progress('Unpacking (MB)', size, show_progress) as bar,
        _reading(archive, folder),
        open(archive, 'rb') as file,
    ):
        start = file.read(len(AR_MAGIC))
        file.seek(0)
        if start == AR_MAGIC:
            _unpack_tar(_debian_data(file, archive), archive, folder, bar.advance)
        elif start.startswith(b'PK'):
            _unpack_zip(file, archive, folder, bar.advance)
        else:
            _unpack_tar(file, archive, folder, bar.advance)


@contextmanager
def _reading(archive: Path, folder: Path | None = None) -> Iterator[None]:
    """`folder`: what goes where the archive is damaged."""
    try:
        yield
        return
    except RuntimeError as error:
        if not isinstance(error, DAMAGED):  # zipfile's for a file with a password
            raise DataError(f'{archive}: cannot be unpacked: {error}') from error
        damage: Exception = error
    except DAMAGED as error:
        damage = error
    except OSError as error:
        if error.errno:  # gzip's and bz2's for damage have none
            raise DataError(f'{archive}: cannot be read: {error.strerror}') from error
        damage = error
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    raise DataError(f'{archive}: is damaged or cut off: {damage}. Copy or download it again') from damage


def _unpack_tar(file: IO[bytes], archive: Path, folder: Path, advance: Advance) -> None:
    done = file.tell()
    # A stream is read once, from the beginning to the end. tarfile itself does not compare checksums.
    with _decompressed(file) as stream, tarfile.open(fileobj=stream, mode='r|') as tar:
        for member in tar:
            target = _target(archive, folder, member.name)
            if member.issym() or member.islnk():
                _link(archive, folder, member, target)
            elif member.isfile():
                with cast(IO[bytes], tar.extractfile(member)) as content:
                    _write(content, target, member.size, member.mtime)
            elif not member.isdir():
                raise DataError(f'{archive}: has {member.name!r}, which is neither file nor folder nor link')
            advance((file.tell() - done) / 1e6)
            done = file.tell()
        while stream.read(1 << 20):  # to the checksum
            pass


def _decompressed(file: IO[bytes]) -> AbstractContextManager[IO[bytes]]:
    start = file.read(6)
    file.seek(-len(start), os.SEEK_CUR)
    if start.startswith(COMPRESSED[0]):
        return cast(AbstractContextManager[IO[bytes]], gzip.open(file))
    if start.startswith(COMPRESSED[1]):
        return cast(AbstractContextManager[IO[bytes]], bz2.open(file))
    if start.startswith(COMPRESSED[2]):
        return cast(AbstractContextManager[IO[bytes]], lzma.open(file))
    return nullcontext(file)


def _unpack_zip(file: IO[bytes], archive: Path, folder: Path, advance: Advance) -> None:
    with zipfile.ZipFile(file) as zipped:
        members = zipped.infolist()
        targets = [_target(archive, folder, member.filename) for member in members]
        for member, target in zip(members, targets, strict=True):
            if not member.is_dir():
                changed = time.mktime((*member.date_time, 0, 0, -1))
                with zipped.open(member) as content:
                    _write(content, target, member.file_size, changed)
            advance(member.compress_size / 1e6)


def _debian_data(file: IO[bytes], archive: Path) -> IO[bytes]:
    """The tar file in a Debian package, which is an ar archive (deb(5))."""
    file.seek(len(AR_MAGIC))
    while len(header := file.read(AR_HEADER)) == AR_HEADER:
        name = header[:16].decode(errors='replace').strip().rstrip('/')
        try:
            size = int(header[48:58])
        except ValueError:
            break
        if name.startswith('data.tar'):
            if name.endswith('.zst'):
                raise DataError(
                    f'{archive}: is compressed by zstd. Unpack it (dpkg-deb -x {archive.name} FOLDER), '
                    'and give the folder with --archive'
                )
            return io.BytesIO(file.read(size))
        file.seek(size + size % 2, os.SEEK_CUR)
    raise DataError(f'{archive}: is damaged or no Debian package: there is no data.tar in it')


def _target(archive: Path, folder: Path, name: str) -> Path:
    """Where a member goes. Raises `DataError` for one that leaves the folder, by its name or by a link."""
    path = Path(folder, name)
    if name.startswith('/') or '\0' in name or '..' in Path(name).parts or not _is_inside(folder, path):
        raise DataError(
            f'{archive}: its member {name!r} would be written outside of {folder}. Such an archive is damaged or '
            'malicious; it is not unpacked'
        )
    return path


def _is_inside(folder: Path, path: Path) -> bool:
    root, real = os.path.realpath(folder), os.path.realpath(path)
    return real == root or real.startswith(os.path.join(root, ''))


def _link(archive: Path, folder: Path, member: tarfile.TarInfo, target: Path) -> None:
    """A symbolic link, or a hard link as a copy. Raises `DataError` for one that points out of the folder."""
    base = target.parent if member.issym() else folder
    if os.path.isabs(member.linkname) or not _is_inside(folder, base / member.linkname):
        raise DataError(
            f'{archive}: its member {member.name!r} is a link to {member.linkname!r}, outside of {folder}. Such an '
            'archive is damaged or malicious; it is not unpacked'
        )
    with _writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_symlink() or target.is_file():
            target.unlink()
        if member.issym():
            target.symlink_to(member.linkname)
        else:
            shutil.copy2(base / member.linkname, target)


def _write(content: IO[bytes], target: Path, size: int, changed: float) -> None:
    """Writes a file unless it is there. One of the same size and time is."""
    with _writing(target):
        if target.is_file() and not target.is_symlink():
            status = target.stat()
            if status.st_size == size and int(status.st_mtime) == int(changed):
                return
        target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f'.{target.name}.part')
    with _created(part) as file:
        while block := content.read(1 << 20):
            with _writing(target):
                file.write(block)
    with _writing(target):
        os.utime(part, (changed, changed))
        os.replace(part, target)


@contextmanager
def _created(path: Path) -> Iterator[IO[bytes]]:
    with _writing(path):
        file = open(path, 'wb')  # noqa: SIM115 - closed below
    try:
        yield file
    finally:
        with _writing(path):
            file.close()


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f'{path}: cannot be written: {error.strerror or error}') from error
