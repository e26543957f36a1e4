"""bin/checkpoint_info.py on checkpoints of real trainings, damaged ones, and those of DeepSpeech."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import checkpoint_info
import pytest

from deepspeech_training.config import Config
from deepspeech_training.flags.table import FLAGS
from tests.helpers import run_training
from tests.toy import toy_config

ROOT = Path(__file__).resolve().parents[2]


def info(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / 'bin' / 'checkpoint_info.py'), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = toy_config(tmp_path, train=4, dev=2, batch_size=2, epochs=2)
    run_training(replace(config, optimizer=replace(config.optimizer, learning_rate=0.002)))
    return Path(config.checkpoints.save_dir)


def test_what_a_run_left(folder: Path) -> None:
    shown = info(str(folder))
    assert shown.returncode == 0, shown.stderr
    assert 'step 4, 2 epochs done; written by this trainer' in shown.stdout
    assert '--learning_rate=0.002' in shown.stdout
    assert "  alphabet '" in shown.stdout
    newest, *others = json.loads(info(str(folder), '--json').stdout)
    assert (newest['step'], newest['epoch'], newest['n_hidden'], newest['problem']) == (4, 2, 16, '')
    assert newest['features']['feature_win_len'] == 32
    assert newest['dev_loss'] > 0
    assert newest['variables']['layer_1/bias'] == [16]
    assert [each['series'] for each in others] == ['train', 'best_dev']


def test_settings_are_shown_as_flags() -> None:
    """Whatever a run can be told."""
    settings: dict[str, object] = {}
    for part in fields(Config):
        value = getattr(Config(), part.name)
        members = [f'{part.name}.{member.name}' for member in fields(value)] if is_dataclass(value) else [part.name]
        settings |= dict.fromkeys(members, 1)
    shown = checkpoint_info.flags_of({**settings, 'model.dropout': [0.1] * 6})
    assert set(shown) <= set(FLAGS)
    assert shown['dropout_rate6'] == 0.1
    assert checkpoint_info.shown('show_progressbar', False) == '--noshow_progressbar'
    assert checkpoint_info.shown('train_files', ['a.csv', 'b.csv']) == '--train_files=a.csv,b.csv'


def test_a_damaged_one_is_named(folder: Path) -> None:
    data = folder / 'train-4.data-00000-of-00001'
    data.write_bytes(data.read_bytes()[:-1])
    shown = info(str(folder))
    assert shown.returncode == 1
    assert 'train-4.data-00000-of-00001 has' in shown.stdout


def test_no_checkpoint(tmp_path: Path) -> None:
    shown = info(str(tmp_path))
    assert (shown.returncode, shown.stdout) == (2, '')
    assert 'there is no checkpoint in this folder' in shown.stderr
    assert 'Traceback' not in shown.stderr


def test_those_of_deepspeech(deepspeech_data: Path) -> None:
    shown = info(str(deepspeech_data / 'deepspeech-0.9.3' / 'resume-check' / 'checkpoint'), '--json')
    assert shown.returncode == 0
    (only,) = json.loads(shown.stdout)
    assert (only['written_by'], only['step'], only['n_hidden'], only['epoch']) == ('DeepSpeech', 12, 64, None)
