"""Downloads from a real server: one that knows ranges, one that does not, one whose connections break."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from deepspeech_training.errors import DataError
from deepspeech_training.importing.corpus import Download
from deepspeech_training.importing.download import fetch, fetch_text

CONTENT = os.urandom(300_000)


@dataclass
class Behaviour:
    """Of the server, and what it was asked."""

    content: bytes = CONTENT
    tag: str = '"first"'
    ranges: bool = True
    break_after: int | None = None  # bytes of each answer
    chunked: bool = False  # without saying how much comes
    status: int = 200
    asked: list[str] = field(default_factory=list)  # the ranges


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'

        def do_GET(self) -> None:
            asked = self.headers.get('Range', '')
            behaviour.asked.append(asked)
            if behaviour.status != 200:
                self.send_error(behaviour.status)
                return
            start = 0
            same = self.headers.get('If-Range', behaviour.tag) == behaviour.tag
            size = len(behaviour.content)
            if behaviour.ranges and same and (match := re.fullmatch(r'bytes=(\d+)-', asked)):
                start = int(match[1])
                if start >= size:
                    self.send_response(416)
                    self.send_header('Content-Range', f'bytes */{size}')
                    self.send_header('Content-Length', '0')
                    self.end_headers()
                    return
                self.send_response(206)
                self.send_header('Content-Range', f'bytes {start}-{size - 1}/{size}')
            else:
                self.send_response(200)
            self.send_header('ETag', behaviour.tag)
            if behaviour.chunked:
                self.send_header('Transfer-Encoding', 'chunked')
            else:
                self.send_header('Content-Length', str(size - start))
            self.end_headers()
            end = size if behaviour.break_after is None else start + behaviour.break_after
            content = behaviour.content[start:end]
            if behaviour.chunked:
                content = b'%x\r\n%s\r\n' % (len(content), content) + (b'0\r\n\r\n' if end >= size else b'')
            self.wfile.write(content)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f'http://127.0.0.1:{server.server_port}/archive.tgz'
    server.shutdown()
    thread.join()
    server.server_close()


def get(url: str, folder: Path, checksum: str = '') -> Path:
    return fetch(Download(url, checksum=checksum), folder, show_progress=False, pause=0.01)


def test_a_file_is_there_whole_and_checked(tmp_path: Path) -> None:
    behaviour = Behaviour()
    with serving(behaviour) as url:
        for checksum in (f'sha256:{hashlib.sha256(CONTENT).hexdigest()}', f'md5:{hashlib.md5(CONTENT).hexdigest()}'):
            path = get(url, tmp_path / checksum[:3], checksum)
            assert path.name == 'archive.tgz'
            assert path.read_bytes() == CONTENT
            assert [other.name for other in path.parent.iterdir()] == ['archive.tgz']
        assert get(url, path.parent) == path
    assert behaviour.asked == ['', '']


@pytest.mark.parametrize('chunked', [False, True])
def test_broken_connections_are_taken_up_where_they_broke(tmp_path: Path, chunked: bool) -> None:
    behaviour = Behaviour(break_after=80_000, chunked=chunked)
    with serving(behaviour) as url:
        assert get(url, tmp_path).read_bytes() == CONTENT
    assert behaviour.asked == ['', 'bytes=80000-', 'bytes=160000-', 'bytes=240000-']


def test_a_killed_download_goes_on(tmp_path: Path) -> None:
    (tmp_path / 'archive.tgz.part').write_bytes(CONTENT[:100_000])
    (tmp_path / 'archive.tgz.part.json').write_text('{"version": "\\"first\\""}')
    behaviour = Behaviour()
    with serving(behaviour) as url:
        assert get(url, tmp_path).read_bytes() == CONTENT
    assert behaviour.asked == ['bytes=100000-']


def test_a_part_that_is_the_whole_needs_no_more(tmp_path: Path) -> None:
    (tmp_path / 'archive.tgz.part').write_bytes(CONTENT)
    (tmp_path / 'archive.tgz.part.json').write_text('{"version": "\\"first\\""}')
    behaviour = Behaviour()
    with serving(behaviour) as url:
        assert get(url, tmp_path).read_bytes() == CONTENT
    assert behaviour.asked == [f'bytes={len(CONTENT)}-']


@pytest.mark.parametrize('note', ['{"version": "\\"older\\""}', '{', ''])
def test_a_part_of_another_version_begins_anew(tmp_path: Path, note: str) -> None:
    (tmp_path / 'archive.tgz.part').write_bytes(b'of an older file' * 1000)
    (tmp_path / 'archive.tgz.part.json').write_text(note)
    with serving(Behaviour()) as url:
        assert get(url, tmp_path).read_bytes() == CONTENT


def test_a_server_without_ranges_begins_anew(tmp_path: Path) -> None:
    behaviour = Behaviour(ranges=False)
    (tmp_path / 'archive.tgz.part').write_bytes(CONTENT[:100_000])
    (tmp_path / 'archive.tgz.part.json').write_text('{"version": "\\"first\\""}')
    with serving(behaviour) as url:
        assert get(url, tmp_path).read_bytes() == CONTENT
    assert behaviour.asked == ['bytes=100000-']


def test_a_wrong_checksum(tmp_path: Path) -> None:
    with (
        serving(Behaviour()) as url,
        pytest.raises(DataError, match=r'the md5 of what came is \w+, not 00ff') as caught,
    ):
        get(url, tmp_path, 'md5:00ff')
    assert '--archive' in str(caught.value)
    assert not list(tmp_path.glob('archive.tgz*[tz]'))


def test_what_a_server_says(tmp_path: Path) -> None:
    for status, attempts in ((404, 1), (503, 5)):
        behaviour = Behaviour(status=status)
        with serving(behaviour) as url:
            with pytest.raises(DataError, match=f'{url}: cannot be downloaded: the server answers {status}'):
                get(url, tmp_path)
            with pytest.raises(DataError, match=f'the server answers {status}'):
                fetch_text(url)
        assert len(behaviour.asked) == attempts + 1


def test_no_server(tmp_path: Path) -> None:
    with serving(Behaviour()) as url:
        pass
    with pytest.raises(DataError, match='cannot be downloaded: Connection refused'):
        get(url, tmp_path)
    with pytest.raises(DataError, match=r'cannot be downloaded: .*(known|resolution|resolve)'):
        get('http://there-is-no-such.invalid/archive.tgz', tmp_path)


def test_too_little_space_is_told_before(small_disk: Path) -> None:
    with serving(Behaviour(content=bytes(2_000_000))) as url, pytest.raises(DataError, match=r'needs 2\.0 MB'):
        get(url, small_disk)


def test_a_page() -> None:
    with serving(Behaviour(content='<a href="é.tgz">'.encode())) as url:
        assert fetch_text(url) == '<a href="é.tgz">'
