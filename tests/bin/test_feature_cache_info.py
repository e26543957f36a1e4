"""bin/feature_cache_info.py on caches that were filled, damaged, left by another version."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepspeech_training.config import FeatureConfig
from deepspeech_training.data.feature_cache import FeatureCache, feature_settings

ROOT = Path(__file__).resolve().parents[2]


def info(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / 'bin' / 'feature_cache_info.py'), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def described(folder: Path, *flags: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(info(folder, '--json', *flags).stdout)
    return found


def fill(folder: Path, **changes: str) -> Path:
    settings = feature_settings(FeatureConfig(), '2.21.0') | changes
    cache = FeatureCache(str(folder), settings)
    for number in range(10):
        cache.store(number.to_bytes(32, 'little'), np.ones([90, 26], np.float32), 28672)
    return Path(cache.path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / 'cache'


def test_what_is_in_it(folder: Path) -> None:
    fill(folder)
    shown = info(folder)
    assert shown.returncode == 0, shown.stderr
    assert '10 utterances, 0.01 hours; last opened 0.0 days ago' in shown.stdout
    assert 'feature_win_len 32' in shown.stdout
    assert 'obsolete' not in shown.stdout
    (facts,) = described(folder)
    assert (facts['utterances'], facts['frames'], facts['files'], facts['damaged']) == (10, 900, 1, None)


def test_damage_is_found(folder: Path) -> None:
    (data,) = fill(folder).glob('*.features')
    assert info(folder, '--check').returncode == 0
    with data.open('r+b') as file:
        file.seek(100)
        file.write(b'?')
    shown = info(folder, '--check')
    assert shown.returncode == 1
    assert '1 damaged' in shown.stdout
    os.truncate(data, 5 * 90 * 104)
    assert described(folder, '--check')[0]['damaged'] == 6


def test_what_is_obsolete_is_removed_and_nothing_else(folder: Path) -> None:
    kept = fill(folder)
    old = fill(folder, feature_version='0')
    other = fill(folder, tensorflow='2.20.0')
    (folder / 'mine').mkdir()
    (folder / 'mine' / 'a.features').write_bytes(b'of the user')
    assert {facts['path']: facts['obsolete'] for facts in described(folder)} == {
        str(kept): False,
        str(old): True,
        str(other): False,
    }
    assert info(folder, '--prune').returncode == 0
    assert not old.exists()
    long_ago = time.time() - 40 * 86400
    os.utime(other / 'settings.json', (long_ago, long_ago))
    info(folder, '--prune', '--unused_days', '30')
    assert not other.exists()
    assert kept.exists()
    assert (folder / 'mine' / 'a.features').exists()


def test_another_folder(tmp_path: Path) -> None:
    shown = info(tmp_path)
    assert shown.returncode == 2
    assert f'{tmp_path}: is no feature cache' in shown.stderr
    assert 'No such file' in info(tmp_path / 'missing').stderr
