"""Kills, full disks, folders that cannot be written: what was good stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from deepspeech_training.checkpoints.folder import LAST, commit, find_checkpoint, named_checkpoints, what_is_wrong
from deepspeech_training.checkpoints.tensors import write_tensors
from deepspeech_training.errors import CheckpointError

ROOT = Path(__file__).resolve().parents[2]
STATE = {'run': {'run': 'a'}}


def add(folder: Path, step: int, numbers: int) -> None:
    values = {'weights': np.zeros(numbers, np.float32)}
    commit(str(folder), LAST, step, lambda prefix: write_tensors(prefix, values), STATE, 5)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_kill_at_random_moments(tmp_path: Path) -> None:
    """60 times; many of them hit a checkpoint that was being written."""
    program = Path(__file__).with_name('kill_while_writing.py')
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), '60', '1'],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, 'PYTHONPATH': str(ROOT), 'TF_CPP_MIN_LOG_LEVEL': '3'},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    print(report)
    assert report['kills'] == 60
    assert report['interrupted'] >= 10
    assert report['fallbacks'] == 0  # the state file never names what is not whole
    assert report['step'] > 20


def test_full_disk(small_disk: Path) -> None:
    """The message names file and reason; the one before stays as it was, and nothing of the new one is left."""
    add(small_disk, 1, numbers=50_000)
    before = files(small_disk)
    with pytest.raises(CheckpointError, match=r'cannot write checkpoint .*/disk/train-2: .*[Nn]o space left'):
        add(small_disk, 2, numbers=500_000)
    assert files(small_disk) == before
    assert find_checkpoint(str(small_disk), LAST) == str(small_disk / 'train-1')
    add(small_disk, 3, numbers=50_000)
    assert [found.step for found in named_checkpoints(str(small_disk), LAST)] == [3, 1]


@pytest.fixture
def read_only_disk(small_disk: Path) -> Path:
    add(small_disk, 1, numbers=1000)
    subprocess.run(['mount', '-o', 'remount,ro', str(small_disk)], check=True)
    return small_disk


def test_read_only_folder(read_only_disk: Path) -> None:
    before = files(read_only_disk)
    with pytest.raises(CheckpointError, match=r'cannot write checkpoint .*train-2: .*[Rr]ead-only'):
        add(read_only_disk, 2, numbers=1000)
    assert files(read_only_disk) == before
    (found,) = named_checkpoints(str(read_only_disk), LAST)
    assert what_is_wrong(found) == ''


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    add(tmp_path, 1, numbers=1000)
    data = tmp_path / 'train-1.data-00000-of-00001'
    content = bytearray(data.read_bytes())
    content[1234] ^= 4
    data.write_bytes(content)
    (found,) = named_checkpoints(str(tmp_path), LAST)
    assert what_is_wrong(found) == 'train-1.data-00000-of-00001 is damaged (its checksum is wrong)'
