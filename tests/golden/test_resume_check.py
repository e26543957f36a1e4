"""Training goes on from a checkpoint of DeepSpeech 0.9.3 as DeepSpeech 0.9.3 did."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.config import (
    CheckpointConfig,
    Config,
    DataConfig,
    ModelConfig,
    ParallelConfig,
    ReportConfig,
    ScheduleConfig,
)
from tests.helpers import run_training, scalars

ALPHABET = Path(__file__).parents[2] / 'data' / 'alphabet.txt'


@pytest.mark.parametrize(('towers', 'batch_size'), [(1, 8), (2, 4)], ids=['one tower', 'two towers'])
def test_eighteen_steps_follow_deepspeech(deepspeech_data: Path, tmp_path: Path, towers: int, batch_size: int) -> None:
    folder = deepspeech_data / 'deepspeech-0.9.3' / 'resume-check'
    config = Config(
        data=DataConfig(
            train_files=(str(folder / 'train.csv'),),
            dev_files=(str(folder / 'dev.csv'),),
            train_batch_size=batch_size,
            dev_batch_size=4,
            alphabet_config_path=str(ALPHABET),
        ),
        model=ModelConfig(n_hidden=64, dropout=(0.0,) * 6),
        schedule=ScheduleConfig(epochs=3),
        checkpoints=CheckpointConfig(load_dir=str(folder / 'checkpoint'), save_dir=str(tmp_path / 'checkpoint')),
        parallel=ParallelConfig(cpu_towers=towers),
        report=ReportConfig(summary_dir=str(tmp_path / 'summaries'), show_progressbar=False),
    )
    run_training(config)

    expected = json.loads((folder / 'step_loss.json').read_text())
    losses = scalars(tmp_path / 'summaries' / 'train', 'step_loss')
    assert list(losses) == [step for step, _ in expected['train']]
    for step, loss in expected['train']:
        assert losses[step] == pytest.approx(loss, rel=1e-3), f'step {step}'
    # DeepSpeech's file has the losses of two batches of four; ours is their mean over all samples.
    dev_losses = scalars(tmp_path / 'summaries' / 'dev', 'epoch_loss')
    for step in (18, 24, 30):
        batches = [loss for at, loss in expected['dev'] if at == step]
        assert dev_losses[step] == pytest.approx(np.mean(batches), rel=1e-3)

    check_variables(str(tmp_path / 'checkpoint' / 'train-30'), folder / 'end_train-30.npz')


def check_variables(checkpoint: str, expected: Path) -> None:
    """All of DeepSpeech's variables and no others; weights near its own, Adam's moments by their scale."""
    reader = tf.train.load_checkpoint(checkpoint)
    weights = []
    with np.load(expected) as end:
        assert set(reader.get_variable_to_shape_map()) == set(end.files)
        for name in end.files:
            difference = np.abs(reader.get_tensor(name) - end[name]).ravel()
            if '/Adam' in name:
                assert np.quantile(difference, 0.99) < 0.1 * np.abs(end[name]).max(), name
            else:
                weights.append(difference)
    differences = np.concatenate(weights)
    assert np.quantile(differences, 0.99) < 2e-4
    assert differences.max() < 5e-3
