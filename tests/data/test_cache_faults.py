"""The feature cache under kills, on full disks and where nothing can be written: features stay right, runs go on."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from deepspeech_training.data.feature_cache import FeatureCache

ROOT = Path(__file__).resolve().parents[2]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def key(number: int) -> bytes:
    return number.to_bytes(32, 'little')


def fill(cache: FeatureCache, numbers: range) -> None:
    for number in numbers:
        cache.store(key(number), np.full([100, 26], number, np.float32), number)  # 10 kB


def found(cache: FeatureCache, numbers: range) -> list[int]:
    """Those that are there; they must be right."""
    there = []
    for number in numbers:
        if (features := cache.find_content(key(number))) is not None:
            np.testing.assert_array_equal(features.mfccs, np.full([100, 26], number, np.float32))
            there.append(number)
    return there


@pytest.mark.slow
def test_kill_at_random_moments(tmp_path: Path) -> None:
    """Two writers at once: nothing of what was written is lost, and two files are all that they need."""
    program = Path(__file__).with_name('fill_cache.py')
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), '50', '1'],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    print(report)
    assert report['kills'] == 50
    assert report['utterances'] > 200
    assert report['torn'] > 0, 'no kill came at a bad moment'
    assert report['files'] == 2


def test_a_disk_that_fills_up(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One warning; what is there stays of use; some room is left for checkpoints."""
    cache = FeatureCache(str(small_disk), {'some': 'settings'})
    fill(cache, range(200))
    (warning,) = warnings(caplog)
    assert warning.startswith(f'--feature_cache={small_disk}: cannot be written: the disk has less than 0.0524 MB left')
    assert found(cache, range(200)) == list(range(cache.stored))
    assert 80 < cache.stored < 100
    assert found(FeatureCache(str(small_disk), {'some': 'settings'}), range(200)) == list(range(cache.stored))
    free = os.statvfs(small_disk)
    assert free.f_bavail * free.f_frsize >= 52_000


def test_a_disk_that_others_fill_up(
    small_disk: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's own error, in the middle of an utterance: what was half written is taken back."""
    monkeypatch.setattr(FeatureCache, '_check_room', lambda self, size: None)
    cache = FeatureCache(str(small_disk), {'some': 'settings'})
    fill(cache, range(200))
    (warning,) = warnings(caplog)
    assert warning.startswith(f'--feature_cache={small_disk}: cannot be written: No space left on device')
    assert 90 < cache.stored < 105
    assert found(cache, range(200)) == list(range(cache.stored))
    (data,) = small_disk.glob('*/*.features')
    assert data.stat().st_size == cache.stored * 100 * 104


def test_a_full_disk_is_told_at_the_start(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(FeatureCache(str(small_disk), {'some': 'settings'}), range(3))
    free = os.statvfs(small_disk)
    (small_disk / 'other').write_bytes(bytes(free.f_bavail * free.f_frsize))
    cache = FeatureCache(str(small_disk), {'some': 'settings'})
    (warning,) = warnings(caplog)
    assert warning == (
        f'--feature_cache={small_disk}: cannot be written: No space left on device. What is in it is used, and no more '
        'is added'
    )
    fill(cache, range(3, 6))
    assert found(cache, range(6)) == [0, 1, 2]


def test_a_cache_that_can_only_be_read(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(FeatureCache(str(small_disk), {'some': 'settings'}), range(3))
    subprocess.run(['mount', '-o', 'remount,ro', str(small_disk)], check=True)
    cache = FeatureCache(str(small_disk), {'some': 'settings'})
    (warning,) = warnings(caplog)
    assert warning.startswith(f'--feature_cache={small_disk}: cannot be written: Read-only file system')
    fill(cache, range(3, 6))
    assert found(cache, range(6)) == [0, 1, 2]
