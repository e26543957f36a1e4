"""A run that was stopped and goes on is, bit for bit, the run it would have been."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.checkpoints import LAST, find_checkpoint
from deepspeech_training.config import Config
from deepspeech_training.epochs import TrainingLoop
from deepspeech_training.errors import TrainingInterruptedError
from tests.helpers import events, run_training, scalars
from tests.toy import toy_config


def config_of(folder: Path, epochs: int, **changes: Any) -> Config:
    """Everything that is random, a plateau that comes, and one thread."""
    config = toy_config(folder, train=7, dev=2, batch_size=2, epochs=epochs)
    return replace(
        config,
        data=replace(config.data, shuffle_batches=True, shuffle_start=0),
        model=replace(config.model, dropout=(0.3,) * 6),
        parallel=replace(config.parallel, intra_op_threads=1, inter_op_threads=1, **changes),
        schedule=replace(
            config.schedule,
            reduce_lr_on_plateau=True,
            plateau_epochs=1,
            es_min_delta=1e3,  # no epoch is better by so much
            lr_schedule='cosine',
            lr_warmup_steps=3,
        ),
    )


def result_of(config: Config) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """All variables and the state of the run beside them."""
    path = find_checkpoint(config.checkpoints.save_dir, LAST)
    assert path is not None
    reader = tf.train.load_checkpoint(path)
    values = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    return values, json.loads(Path(f'{path}.json').read_text(encoding='utf-8'))['run']


def assert_same_run(ours: Config, theirs: Config) -> None:
    values, state = result_of(ours)
    expected, expected_state = result_of(theirs)
    assert state.pop('run') != expected_state.pop('run')  # each training has a name of its own
    assert state == expected_state
    assert values.keys() == expected.keys()
    for name, value in values.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


@pytest.fixture(scope='module')
def whole(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Four epochs without a stop."""
    config = config_of(tmp_path_factory.mktemp('whole'), 4)
    run_training(config)
    return config


def test_two_and_two_epochs_equal_four(whole: Config, tmp_path: Path) -> None:
    """With a schedule that spans the run, its length must be the same: the run is stopped after two epochs."""
    config = config_of(tmp_path, 4)
    with pytest.raises(TrainingInterruptedError):
        run_stopped_after(config, steps=8)
    run_training(config)
    assert_same_run(config, whole)


@pytest.mark.parametrize('steps', [1, 3, 4, 6])
def test_stopped_at_any_step(whole: Config, tmp_path: Path, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path, 4)
    with pytest.raises(TrainingInterruptedError) as caught:
        run_stopped_after(config, steps)
    assert caught.value.exit_status == 128 + signal.SIGTERM
    assert result_of(config)[1]['step'] == steps
    run_training(config)
    assert_same_run(config, whole)
    shown = scalars(Path(config.report.summary_dir) / 'train', 'learning_rate')
    assert shown == scalars(Path(whole.report.summary_dir) / 'train', 'learning_rate')


def run_stopped_after(config: Config, steps: int) -> None:
    """A real SIGTERM to this process when a step is done."""
    after_step = TrainingLoop._after_training_step

    def stop(loop: TrainingLoop, *args: Any) -> None:
        if loop._state.step == steps:
            os.kill(os.getpid(), signal.SIGTERM)
            while loop._interrupts.stop is None:
                pass
        after_step(loop, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingLoop, '_after_training_step', stop)
        run_training(config)


def test_stopped_in_validation_no_point_of_a_curve_is_written_twice(tmp_path: Path) -> None:
    config = toy_config(tmp_path, train=4, dev=2, batch_size=2, epochs=2)
    validate = TrainingLoop._validate

    def stop(loop: TrainingLoop, epoch: int) -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        while loop._interrupts.stop is None:
            pass
        return validate(loop, epoch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingLoop, '_validate', stop)
        with pytest.raises(TrainingInterruptedError):
            run_training(config)
    assert result_of(config)[1]['rows_done'] == 4
    run_training(config)
    for part, tag, steps in (('train', 'epoch_loss', [2, 4]), ('train', 'step_loss', [1, 2, 3, 4])):
        written = events(tmp_path / 'summaries' / part)
        assert [event.step for event in written for value in event.summary.value if value.tag == tag] == steps
    assert result_of(config)[1]['epoch'] == 2


def test_nothing_left_to_train(whole: Config, capsys: pytest.CaptureFixture[str]) -> None:
    before = result_of(whole)
    run_training(whole)
    assert result_of(whole)[1] == before[1]


def test_epochs_are_those_in_total(tmp_path: Path) -> None:
    config = toy_config(tmp_path, train=4, batch_size=2, epochs=2)
    run_training(config)
    run_training(replace(config, schedule=replace(config.schedule, epochs=3)))
    values, state = result_of(config)
    assert (values['global_step'], state['epoch']) == (6, 3)


def test_other_training_samples_begin_the_epoch_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = toy_config(tmp_path / 'a', train=6, batch_size=2, epochs=1)
    with pytest.raises(TrainingInterruptedError):
        run_stopped_after(config, steps=2)
    other = toy_config(tmp_path / 'b', train=4, batch_size=2, epochs=1)
    run_training(replace(other, checkpoints=config.checkpoints))
    assert result_of(config)[0]['global_step'] == 2 + 2
    assert 'begins again' in caplog.text
