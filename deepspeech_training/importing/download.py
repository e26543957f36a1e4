"""Large files from a server, in as many attempts as it takes."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any

from deepspeech_training import log
from deepspeech_training.errors import DataError
from deepspeech_training.importing.corpus import Download

TIMEOUT = 60.0  # seconds without a byte
ATTEMPTS = 5  # in a row that bring nothing
PAUSE = 1.0  # seconds before the second attempt, doubled each time
BLOCK = 1 << 20
AGENT = {'User-Agent': 'deepspeech_training'}


def fetch(download: Download, folder: Path, *, show_progress: bool = True, pause: float = PAUSE) -> Path:
    """The file of `download` in `folder`, which may have it already, whole or in part.

    A part is kept under the name `NAME.part`, and the rest is asked for (RFC 9110, range requests) as long as the
    server still has the same file. Raises `DataError` for a server that cannot be reached or does not have it, for a
    full disk, and for a file with another checksum.
    """
    path = folder / download.name
    if path.exists():
        return path
    size = f'{gigabytes(download.size)}, ' if download.size else ''
    log.info(f'Downloading {download.url} ({size}to {path}); Ctrl+C interrupts, the same command goes on')
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    _fetch_part(download.url, path, show_progress, pause)
    _check(_part(path), download)
    _part(path).rename(path)
    _note(path).unlink(missing_ok=True)
    return path


def fetch_text(url: str) -> str:
    """A page, as text. Raises `DataError`."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=AGENT), timeout=TIMEOUT) as response:
            content: bytes = response.read()
            return content.decode(errors='replace')
    except (OSError, http.client.HTTPException) as error:
        raise DataError(f'{url}: cannot be downloaded: {_why(error)}') from error


def gigabytes(size: float) -> str:
    """A number of bytes as people read it."""
    return f'{size / 1e9:.1f} GB' if size >= 1e9 else f'{size / 1e6:.1f} MB'


def _part(path: Path) -> Path:
    return path.with_name(f'{path.name}.part')


def _note(path: Path) -> Path:
    """Says which version of the file the part is of."""
    return path.with_name(f'{path.name}.part.json')


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _fetch_part(url: str, path: Path, show_progress: bool, pause: float) -> None:
    """Until the part is the whole. Raises `DataError`."""
    failures = 0
    has_grown = False
    while True:
        before = _size(_part(path))
        try:
            if _attempt(url, path, show_progress):
                return
            problem = 'the connection broke off'
        except urllib.error.HTTPError as error:
            if error.code < 500:
                raise DataError(f'{url}: cannot be downloaded: {_why(error)}') from error
            problem = _why(error)
        except (OSError, http.client.HTTPException) as error:
            problem = _why(error)
            if isinstance(getattr(error, 'reason', None), socket.gaierror) and not has_grown:  # there is no network
                raise DataError(f'{url}: cannot be downloaded: {problem}') from error
        has_grown |= _size(_part(path)) > before
        failures = 0 if _size(_part(path)) > before else failures + 1
        if failures >= ATTEMPTS:
            raise DataError(f'{url}: cannot be downloaded: {problem}')
        log.warn(f'{url}: {problem}; trying again with {gigabytes(_size(_part(path)))} there')
        time.sleep(pause * 2 ** max(0, failures - 1))


def _why(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f'the server answers {error.code} ({error.reason})'
    reason = getattr(error, 'reason', error)
    return str(getattr(reason, 'strerror', None) or reason or type(error).__name__)


def _attempt(url: str, path: Path, show_progress: bool) -> bool:
    """Appends what the server sends. Whether the file is whole then."""
    part = _part(path)
    have, known = _size(part), _read_note(_note(path))
    headers = dict(AGENT)
    if have and known:
        headers |= {'Range': f'bytes={have}-', 'If-Range': known}
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        if error.headers.get('Content-Range', '') == f'bytes */{have}':
            return True
        part.unlink()
        return False
    with response:
        start = have if _continues(response, have) else 0
        length = response.headers.get('Content-Length')
        total = start + int(length) if length else None
        if total is not None:
            log.info(f'{path.name}: {gigabytes(total)}{f", {gigabytes(start)} are there" if start else ""}')
            _check_space(path.parent, total - start)
        # What an older version left goes before the note says that this version is there.
        with _writing(part), open(part, 'r+b' if start else 'wb') as file:
            _write_note(_note(path), response)
            file.seek(start)
            has_ended = _copy(response, file, start, total, show_progress)
        return has_ended and (total is None or _size(part) >= total)


def _continues(response: Any, have: int) -> bool:
    """Whether the server sends the rest, not the whole."""
    begins = str(response.headers.get('Content-Range', '')).startswith(f'bytes {have}-')
    return bool(response.status == http.client.PARTIAL_CONTENT and begins)


def _copy(response: Any, file: IO[bytes], start: int, total: int | None, show_progress: bool) -> bool:
    """Writes what comes. Whether that ended, as far as the connection tells; not when it broke off."""
    with log.progress('Downloading (MB)', total and round(total / 1e6), show_progress) as bar:
        bar.advance(start / 1e6)
        while True:
            try:
                block = response.read1(BLOCK)
            except (OSError, http.client.HTTPException) as error:
                log.debug(f'{file.name}: {error!r}')
                return False
            if not block:
                return True
            file.write(block)
            bar.advance(len(block) / 1e6)


def _read_note(note: Path) -> str:
    try:
        return str(json.loads(note.read_text())['version'])
    except (OSError, ValueError, KeyError, TypeError):
        return ''


def _write_note(note: Path, response: Any) -> None:
    """What If-Range may name: a strong entity tag or a date."""
    tag = response.headers.get('ETag', '')
    version = tag if tag and not tag.startswith('W/') else response.headers.get('Last-Modified', '')
    note.write_text(json.dumps({'version': version}))


@contextlib.contextmanager
def _writing(path: Path) -> Any:
    try:
        yield
    except OSError as error:
        raise DataError(f'{path}: cannot be written: {error.strerror or error}') from error


def _check_space(folder: Path, needed: int) -> None:
    with _writing(folder):
        free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(f'{folder}: the disk has {gigabytes(free)} free, the download needs {gigabytes(needed)}')


def _check(path: Path, download: Download) -> None:
    if download.checksum:
        kind, _, expected = download.checksum.partition(':')
        log.info(f'{path.name}: comparing the checksum')
        with open(path, 'rb') as file:
            digest = hashlib.new(kind, usedforsecurity=False)
            while block := file.read(BLOCK):
                digest.update(block)
        if digest.hexdigest() != expected:
            os.unlink(path)
            raise DataError(
                f'{download.url}: the {kind} of what came is {digest.hexdigest()}, not {expected}: it is damaged or '
                'another version. It was removed; try again, or download it by hand and give it with --archive'
            )
