"""Files are written as a whole or not at all, here and elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deepspeech_training import storage


def write_half(path: str) -> None:
    with storage.written_whole(path) as unfinished:
        Path(unfinished).write_bytes(b'half')
        raise KeyboardInterrupt


@pytest.mark.parametrize('durable', [False, True])
def test_a_file_gets_its_name_when_it_is_complete(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / 'file'
    storage.write_whole(str(path), b'old')
    with storage.written_whole(str(path), durable=durable) as unfinished:
        Path(unfinished).write_bytes(b'new')
        assert path.read_bytes() == b'old'
    assert path.read_bytes() == b'new'
    assert [*tmp_path.iterdir()] == [path]


def test_what_fails_leaves_the_old_file_only(tmp_path: Path) -> None:
    path = tmp_path / 'file'
    path.write_bytes(b'old')
    with pytest.raises(KeyboardInterrupt):
        write_half(str(path))
    assert path.read_bytes() == b'old'
    assert [*tmp_path.iterdir()] == [path]


def test_a_folder_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / 'folder').mkdir()
    with pytest.raises(IsADirectoryError, match='folder'), storage.written_whole(str(tmp_path / 'folder')):
        pytest.fail('nothing is to be written')
    assert [path.name for path in tmp_path.iterdir()] == ['folder']


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        storage.write_whole(str(tmp_path / 'file'), b'')
    finally:
        os.umask(before)
    assert (tmp_path / 'file').stat().st_mode & 0o777 == 0o640


def test_elsewhere() -> None:
    address = 'memory://storage/folder/file'
    storage.write_whole(address, b'content')
    assert storage.read(address) == b'content'
    with pytest.raises(KeyboardInterrupt):
        write_half(address)
    assert storage.read(address) == b'content'
