"""The demo script with a small corpus: that every step runs and says what it should, not that the model is good."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def demo(folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, 'PYTHON': sys.executable, 'DEMO_DIR': str(folder), **settings}
    return subprocess.run(
        ['bash', str(ROOT / 'bin' / 'demo.sh')],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=environment,
    )


@pytest.mark.slow
def test_a_small_demo_runs_to_its_end_and_trains_anew(tmp_path: Path) -> None:
    folder = tmp_path / 'demo'
    # As an earlier demo that was interrupted would leave it.
    (folder / 'corpus').mkdir(parents=True)
    note = {'made_by': 'make_espeak_corpus', 'complete': False, 'parameters': {}, 'splits': {}}
    (folder / 'corpus' / 'corpus.json').write_text(json.dumps(note), encoding='utf-8')
    stale = [
        folder / 'checkpoints' / 'checkpoint',
        folder / 'summaries' / 'train' / 'old',
        folder / 'export' / 'old.pb',
    ]
    for path in stale:
        path.parent.mkdir(parents=True)
        path.write_text('old', encoding='utf-8')

    result = demo(folder, DEMO_UTTERANCES='100', DEMO_EPOCHS='1', DEMO_N_HIDDEN='32')
    assert result.returncode == 0, result.stdout + result.stderr
    with open(folder / 'corpus' / 'test.csv', encoding='utf-8', newline='') as file:
        first = next(csv.DictReader(file))
    assert re.search(r'^Test on .*corpus/test\.csv - WER: \d', result.stdout, re.MULTILINE)
    assert f'Transcribing a test file, in which is said: {first["transcript"]}\n' in result.stdout
    assert f'tensorboard --logdir {folder}/summaries' in result.stdout
    assert (folder / 'export' / 'output_graph.pb').stat().st_size > 10_000
    assert list((folder / 'summaries').rglob('*tfevents*'))
    assert list((folder / 'checkpoints').glob('best_dev-*.index'))
    assert not [path for path in stale if path.exists() and path.read_text(encoding='utf-8') == 'old']


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / 'checkpoints' / 'best_dev-1.index'
    precious.parent.mkdir()
    precious.write_text('mine', encoding='utf-8')
    result = demo(tmp_path)
    assert result.returncode == 2
    assert 'not empty' in result.stderr
    assert precious.read_text(encoding='utf-8') == 'mine'
