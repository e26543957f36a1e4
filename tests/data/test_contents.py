"""Hashes of audio files: remembered, but never those of another content."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from deepspeech_training.data import contents
from deepspeech_training.data.contents import ContentMemory


def hash_of(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=32).digest()


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were written just now are as good as old ones: a test changes no file within a tick of the clock."""
    monkeypatch.setattr(contents, 'SETTLED_SECONDS', 0.0)


def wait_a_tick() -> None:
    time.sleep(0.02)


@pytest.fixture
def audio(tmp_path: Path) -> Path:
    path = tmp_path / 'a.wav'
    path.write_bytes(b'first')
    wait_a_tick()
    return path


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / 'cache').mkdir()
    return str(tmp_path / 'cache')


def recalled(folder: str, path: Path) -> bytes | None:
    memory = ContentMemory(folder)
    memory.refresh()
    return memory.recall(str(path))


@pytest.mark.usefixtures('settled')
def test_the_next_run_need_not_read(audio: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = ContentMemory(folder)
    assert memory.recall(str(audio)) is None
    assert memory.read(str(audio)) == (hash_of(b'first'), b'first')
    assert memory.recall(str(audio)) == hash_of(b'first')
    assert recalled(folder, audio) == hash_of(b'first')
    monkeypatch.chdir(audio.parent)
    assert recalled('cache', Path('a.wav')) == hash_of(b'first'), 'it does not matter where the program starts'


@pytest.mark.usefixtures('settled')
def test_other_processes_take_it_up(audio: Path, folder: str) -> None:
    other = ContentMemory(folder)
    other.refresh()
    ContentMemory(folder).read(str(audio))
    assert other.recall(str(audio)) is None
    other.refresh()
    assert other.recall(str(audio)) == hash_of(b'first')


@pytest.mark.usefixtures('settled')
@pytest.mark.parametrize('how', ['longer', 'same size', 'same size and time', 'replaced, times kept', 'gone'])
def test_a_changed_file_is_another(audio: Path, folder: str, how: str) -> None:
    ContentMemory(folder).read(str(audio))
    status = audio.stat()
    times = (status.st_atime_ns, status.st_mtime_ns)
    if how == 'gone':
        audio.unlink()
        with pytest.raises(FileNotFoundError):
            recalled(folder, audio)
        return
    if how == 'replaced, times kept':
        other = audio.with_name('b.wav')
        other.write_bytes(b'other')
        os.utime(other, ns=times)
        wait_a_tick()
        other.replace(audio)
    else:
        audio.write_bytes(b'longer' if how == 'longer' else b'other')
    if how == 'same size and time':
        os.utime(audio, ns=times)
    assert recalled(folder, audio) is None
    assert ContentMemory(folder).read(str(audio)).hash == hash_of(audio.read_bytes())
    wait_a_tick()


def test_a_file_that_was_written_just_now_is_not_remembered(audio: Path, folder: str) -> None:
    """It could be written again within the same tick, and would look the same."""
    assert ContentMemory(folder).read(str(audio)).hash == hash_of(b'first')
    assert recalled(folder, audio) is None


def test_a_file_that_cannot_be_read(tmp_path: Path, folder: str) -> None:
    with pytest.raises(FileNotFoundError):
        ContentMemory(folder).read(str(tmp_path / 'missing.wav'))


@pytest.mark.usefixtures('settled')
def test_where_nothing_can_be_written_it_is_remembered_for_this_run(audio: Path, tmp_path: Path) -> None:
    memory = ContentMemory(str(tmp_path / 'nowhere'))
    memory.read(str(audio))
    assert memory.recall(str(audio)) == hash_of(b'first')
