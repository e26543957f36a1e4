"""Trainings whose first layers keep the weights of another training, for good or until an epoch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.config import LAYERS, Config
from deepspeech_training.errors import CheckpointError, TrainingInterruptedError
from tests.helpers import run_training
from tests.test_resume import assert_same_run, config_of, result_of, run_stopped_after

FROZEN = 4
STEPS = 4  # an epoch


@pytest.fixture(scope='module')
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The checkpoints of another training."""
    config = config_of(tmp_path_factory.mktemp('source'), 1)
    run_training(config)
    return config.checkpoints.save_dir


def transfer(folder: Path, source: str) -> Config:
    """Three epochs with two new layers; the first with the others frozen, with dropout and all that changes."""
    config = config_of(folder, 3)
    checkpoints = replace(
        config.checkpoints,
        load_dir=source,
        drop_source_layers=6 - FROZEN,
        freeze_source_layers=FROZEN,
        unfreeze_at_epoch=1,
    )
    return replace(config, checkpoints=checkpoints)


@pytest.fixture(scope='module')
def whole(source: str, tmp_path_factory: pytest.TempPathFactory) -> Config:
    config = transfer(tmp_path_factory.mktemp('whole'), source)
    run_training(config)
    return config


def layers_that_differ(one: str, other: str) -> set[str]:
    """Of two checkpoints, which have the same variables; also by Adam's moments."""
    readers = [tf.train.load_checkpoint(path) for path in (one, other)]
    names = [set(reader.get_variable_to_shape_map()) for reader in readers]
    assert names[0] == names[1]
    values = {name: [reader.get_tensor(name) for reader in readers] for name in names[0]}
    return {name.split('/')[0] for name, (a, b) in values.items() if not np.array_equal(a, b)} & set(LAYERS)


def test_layers_are_frozen_until_their_epoch(whole: Config, source: str) -> None:
    folder = Path(whole.checkpoints.save_dir)
    first, second = (str(folder / f'train-{STEPS * (1 + epoch)}') for epoch in (1, 2))
    assert layers_that_differ(f'{source}/train-{STEPS}', first) == set(LAYERS[FROZEN:])
    assert layers_that_differ(first, second) == set(LAYERS)


@pytest.mark.parametrize('steps', [3, STEPS, STEPS + 1, 2 * STEPS + 1])
def test_stopped_and_resumed_it_is_the_same_run(whole: Config, source: str, tmp_path: Path, steps: int) -> None:
    """In the epoch with frozen layers, at its end, and later."""
    config = transfer(tmp_path, source)
    with pytest.raises(TrainingInterruptedError):
        run_stopped_after(config, STEPS + steps)
    run_training(config)
    assert_same_run(config, whole)


def test_the_model_is_never_unfrozen_without_the_flag(source: str, tmp_path: Path) -> None:
    config = transfer(tmp_path, source)
    config = replace(config, checkpoints=replace(config.checkpoints, unfreeze_at_epoch=0))
    run_training(config)
    last = f'{config.checkpoints.save_dir}/train-{4 * STEPS}'
    assert layers_that_differ(f'{source}/train-{STEPS}', last) == set(LAYERS[FROZEN:])


def test_an_early_stop_comes_before_unfreezing(source: str, tmp_path: Path) -> None:
    config = transfer(tmp_path, source)
    schedule = replace(config.schedule, reduce_lr_on_plateau=False, early_stop=True, es_epochs=1, epochs=9)
    config = replace(config, schedule=schedule, checkpoints=replace(config.checkpoints, unfreeze_at_epoch=5))
    run_training(config)
    assert result_of(config)[1]['epoch'] == 2  # the first one is better than none at all


def test_there_is_nothing_to_freeze(tmp_path: Path) -> None:
    """Where checkpoints are, only the process knows that has the best one."""
    config = transfer(tmp_path, str(tmp_path / 'nowhere'))
    with pytest.raises(CheckpointError, match='--freeze_source_layers=4: there is no checkpoint in'):
        run_training(config)
    assert not list(Path(config.checkpoints.save_dir).glob('train-*'))
