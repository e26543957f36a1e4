"""The file that remembers audio files: damage, sharing, and places that cannot be written."""

from __future__ import annotations

import errno
import fcntl
import gzip
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deepspeech_training.data.remembered import AudioFacts, AudioMemory, memory_folder, one_at_a_time

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


CHECK = """
import sys, time
from deepspeech_training import log
from deepspeech_training.data.remembered import one_at_a_time
log.setup(1)
folder, seconds, csv_files = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
with one_at_a_time(folder, csv_files):
    print('in', flush=True)
    time.sleep(seconds)
"""


def checker(folder: Path, seconds: float, *csv_files: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, '-c', CHECK, str(folder), str(seconds), *csv_files],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, 'PYTHONPATH': str(Path(__file__).resolve().parents[2])},
    )


def test_processes_with_the_same_files_take_turns(tmp_path: Path) -> None:
    """The first holds up those with its files until it ends, by a kill too, and no others; these go on side by side."""
    with checker(tmp_path, 60, 'a.csv', 'b.csv') as first:
        assert first.stdout is not None
        assert first.stdout.readline() == 'in\n'
        with checker(tmp_path, 0, 'a.csv') as other:
            out, err = other.communicate(timeout=60)
            assert (out, err) == ('in\n', '')
        with checker(tmp_path, 1, 'b.csv', 'a.csv') as second, checker(tmp_path, 1, 'a.csv', 'b.csv') as third:
            for waiting in (second, third):
                assert waiting.stderr is not None
                assert waiting.stderr.readline() == 'I Another process is checking the same data: waiting for it\n'
                assert waiting.poll() is None
            first.kill()
            first.communicate(timeout=60)
            assert [waiting.communicate(timeout=60)[0] for waiting in (second, third)] == ['in\n', 'in\n']


def test_a_folder_without_locks_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / 'file').touch()
    done = []
    with one_at_a_time(str(tmp_path / 'file' / 'below'), ['a.csv']):
        done.append('cannot be written')

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, 'No locks available')

    monkeypatch.setattr(fcntl, 'flock', no_locks)
    with one_at_a_time(str(tmp_path / 'new'), ['a.csv']):
        done.append('no locks')
    with one_at_a_time(str(tmp_path / 'other'), []):
        done.append('nothing to check')
    assert done == ['cannot be written', 'no locks', 'nothing to check']
    assert not (tmp_path / 'other').exists()
