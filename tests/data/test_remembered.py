"""The file that remembers audio files: damage, sharing, and places that cannot be written."""

from __future__ import annotations

import gzip
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deepspeech_training.data.remembered import AudioFacts, AudioMemory, memory_folder, write_whole

FACTS = AudioFacts(size=32044, mtime=1700000000123456789, frames=16000, sample_rate=16000, channels=1)


def stored(folder: Path, csv: str = '/corpus/train.csv') -> tuple[AudioMemory, dict[str, AudioFacts]]:
    facts = {'/corpus/wav/a.wav': FACTS, '/else/ä.wav': FACTS._replace(size=5)}
    memory = AudioMemory(str(folder), csv)
    memory.store(facts)
    return memory, facts


def test_recalls_what_was_stored(tmp_path: Path) -> None:
    _, facts = stored(tmp_path / 'new' / 'folder')

    assert AudioMemory(str(tmp_path / 'new' / 'folder'), '/corpus/train.csv').recall() == facts


def test_nothing_stored(tmp_path: Path) -> None:
    stored(tmp_path)

    assert AudioMemory(str(tmp_path), '/corpus/dev.csv').recall() == {}
    assert AudioMemory(str(tmp_path), '/other/train.csv').recall() == {}
    assert AudioMemory(str(tmp_path / 'nowhere'), '/corpus/train.csv').recall() == {}


def test_it_does_not_matter_where_the_program_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / 'sub').mkdir()
    monkeypatch.chdir(tmp_path)
    AudioMemory('memory', 'sub/train.csv').store({'sub/a.wav': FACTS})
    monkeypatch.chdir(tmp_path / 'sub')

    assert AudioMemory('../memory', 'train.csv').recall() == {'a.wav': FACTS}
    assert AudioMemory('../memory', '../sub/train.csv').recall() == {'../sub/a.wav': FACTS}


@pytest.mark.parametrize(
    'damage', ['cut', 'flipped', 'garbage', 'empty', 'other', 'short', 'list', 'version', 'folder']
)
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, damage: str) -> None:
    memory, facts = stored(tmp_path)
    path = Path(memory.path)
    content = path.read_bytes()
    if damage == 'folder':
        path.unlink()
        path.mkdir()
    else:
        flipped = bytearray(content)
        flipped[len(content) // 2] ^= 0x10
        path.write_bytes(
            {
                'cut': content[: len(content) // 2],
                'flipped': bytes(flipped),
                'garbage': b'no gzip at all',
                'empty': b'',
                'other': gzip.compress(b'{"version": 1}'),
                'short': gzip.compress(b'{"version": 1, "audio": {"a.wav": [1, 2]}}'),
                'list': gzip.compress(b'[1, 2]'),
                'version': gzip.compress(json.dumps({'version': 999, 'audio': {'a.wav': list(FACTS)}}).encode()),
            }[damage]
        )

    again = AudioMemory(str(tmp_path), '/corpus/train.csv')

    assert again.recall() == {}
    again.store(facts)  # a folder in the way stays there, the others are replaced
    if damage != 'folder':
        assert AudioMemory(str(tmp_path), '/corpus/train.csv').recall() == facts


def test_what_is_known_is_not_written_again(tmp_path: Path) -> None:
    memory, facts = stored(tmp_path)
    before = os.stat(memory.path).st_ino

    again = AudioMemory(str(tmp_path), '/corpus/train.csv')
    again.store(again.recall())
    assert os.stat(memory.path).st_ino == before

    again.store({'/corpus/wav/a.wav': FACTS})
    assert AudioMemory(str(tmp_path), '/corpus/train.csv').recall() == {'/corpus/wav/a.wav': FACTS}
    assert len(facts) == 2


def test_a_place_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / 'file').write_text('in the way')

    memory, _ = stored(tmp_path / 'file' / 'folder')

    assert memory.recall() == {}


def test_readers_and_writers_at_the_same_time(tmp_path: Path) -> None:
    versions = [{f'/corpus/{number}.wav': FACTS for number in range(count)} for count in (100, 2000)]
    AudioMemory(str(tmp_path), '/corpus/train.csv').store(versions[0])

    def write_and_read(turn: int) -> bool:
        AudioMemory(str(tmp_path), '/corpus/train.csv').store(versions[turn % 2])
        return AudioMemory(str(tmp_path), '/corpus/train.csv').recall() in versions

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write_and_read, range(64)))
    assert len(list(tmp_path.iterdir())) == 1  # nothing unfinished is left


def test_an_unfinished_file_is_removed(tmp_path: Path) -> None:
    (tmp_path / 'folder').mkdir()

    with pytest.raises(OSError, match='folder'):
        write_whole(str(tmp_path / 'folder'), b'content')

    assert [path.name for path in tmp_path.iterdir()] == ['folder']


@pytest.mark.parametrize(
    ('save_dir', 'caches', 'expected'),
    [
        ('/save', '/caches', '/save/checked_audio'),
        ('', '/caches', '/caches/deepspeech_training/checked_audio'),
        ('', '', '/home/me/.cache/deepspeech_training/checked_audio'),
        ('', 'relative', '/home/me/.cache/deepspeech_training/checked_audio'),
    ],
)
def test_where(monkeypatch: pytest.MonkeyPatch, save_dir: str, caches: str, expected: str) -> None:
    monkeypatch.setenv('HOME', '/home/me')
    monkeypatch.setenv('XDG_CACHE_HOME', caches)

    assert memory_folder(save_dir) == expected
