"""bin/bench_inference.py: the table's arithmetic, and one short run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import bench_inference
import numpy as np
import soundfile
from bench_inference import Times, table

ROOT = Path(__file__).resolve().parents[2]


def test_ratios_are_of_turns_taken_together() -> None:
    """A turn in which the machine was slow is slow for both."""
    times = {
        'client': Times([1.0, 9.0, 1.2], [2.0, 2.0, 2.0], [0.1, 0.1, 0.1], 'a'),
        'ours': Times([0.5, 3.0, 0.6], [1.0, 4.0, 4.0], [0.2, 0.2, 0.2], 'b'),
    }
    lines = table(times, 2.5).splitlines()
    assert lines[0] == '2.5 s of audio; ratios to client, more is faster'
    assert '| client | 1.200 | 1.00 | 2.000 | 1.00 | 100 | 1.00 |' in lines
    assert '| ours | 0.600 | 2.00 | 4.000 | 0.50 | 200 | 0.50 |' in lines
    assert lines[-1] == 'Another text than client: ours'


def test_a_run(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).normal(scale=0.1, size=8000)
    soundfile.write(tmp_path / 'noise.wav', noise, 16000, subtype='PCM_16')
    command = [sys.executable, str(ROOT / 'bin' / 'bench_inference.py'), str(tmp_path / 'noise.wav')]
    command += ['--n_hidden', '8', '--rounds', '1', '--only', 'checkpoint,frozen']
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith('| ')]
    assert [row.split(' | ')[0] for row in rows[2:]] == ['| checkpoint', '| frozen graph (.pb)']
    assert all(float(number) > 0 for row in rows[2:] for number in row.strip('| ').split(' | ')[1:6:2])
    assert 'Another text than checkpoint: none' in done.stdout


def test_a_model_is_needed(tmp_path: Path) -> None:
    assert bench_inference.main([str(tmp_path / 'none.wav')]) == 2
    assert bench_inference.main([str(tmp_path / 'none.wav'), '--n_hidden', '8']) == 2
