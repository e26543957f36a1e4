"""The benchmark of checkpoints: what it makes of times, and a run with a tiny model."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench_checkpoint import Round, one_round, report

BIN = Path(__file__).parents[2] / 'bin'


def test_steps_go_on_until_the_checkpoint_is_written() -> None:
    begun = []

    def step() -> float:
        start = time.perf_counter()
        time.sleep(0.05)
        return time.perf_counter() - start

    def wait() -> None:
        time.sleep(0.2)

    result = one_round(step, lambda: begun.append(time.perf_counter()), wait, copied=0.01, usual=0.01)
    assert len(begun) == 1
    assert result.held < 0.05
    assert 0.2 <= result.written < 1.0
    assert result.during >= 1
    assert result.first >= 0.05
    assert result.slowed == pytest.approx(result.during * 0.04, abs=0.3)


def test_the_report_has_medians() -> None:
    rounds = [Round(0.1, 0.2, 1.5, 4.0, 3, 0.5), Round(0.1, 0.4, 1.5, 4.0, 3, 0.5), Round(0.1, 9.0, 1.5, 4.0, 3, 0.5)]
    text = report(64, 2_000_000, [1.0, 1.2, 9.0], rounds)
    assert text.startswith('n_hidden 64, 2 MB a checkpoint; medians of 3')
    rows = dict(re.split('  +', line.strip()) for line in text.splitlines()[1:])
    assert rows['step without a checkpoint'] == '1.200 s'
    assert rows['held until saving returns'] == '0.400 s'
    assert rows['held, of the whole writing'] == '10.0%'


def test_a_tiny_model(tmp_path: Path) -> None:
    command = [sys.executable, str(BIN / 'bench_checkpoint.py'), '--n_hidden=8', '--rounds=1', '--steps=1']
    result = subprocess.run(
        [*command, f'--folder={tmp_path}'], capture_output=True, text=True, check=False, timeout=300
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith('n_hidden 8, 0 MB a checkpoint; medians of 1')
    assert len(result.stdout.splitlines()) == 9
    assert not list(tmp_path.iterdir())
