"""The learning rate over a run: warm-up, cosine, plateau reductions and what TensorBoard shows of them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import tensorflow as tf

from deepspeech_training.config import Config, ScheduleConfig
from deepspeech_training.train import scheduled_learning_rate
from tests.helpers import run_training, scalars
from tests.toy import toy_config


def factors(schedule: ScheduleConfig, updates: int, steps: range) -> list[float]:
    """The learning rate before each of `steps` when its base is 1."""
    tf.compat.v1.disable_v2_behavior()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.get_variable('global_step', initializer=tf.constant(0, tf.int64), use_resource=True)
        rate = scheduled_learning_rate(tf.constant(1.0), step, schedule, updates)
        number = tf.compat.v1.placeholder(tf.int64, [])
        assign = step.assign(number).op
        values = []
        for each in steps:
            session.run(assign, {number: each})
            values.append(float(session.run(rate)))
        return values


def test_constant() -> None:
    assert factors(ScheduleConfig(), 4, range(6)) == [1.0] * 6


def test_warm_up_rises_to_the_whole_rate() -> None:
    assert factors(ScheduleConfig(lr_warmup_steps=4), 10, range(6)) == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])


def test_cosine_falls_to_its_final_share_at_the_end_of_the_run() -> None:
    schedule = ScheduleConfig(lr_schedule='cosine', lr_final_fraction=0.1)
    values = factors(schedule, 8, range(11))
    assert values[0] == 1
    assert values[4] == pytest.approx(0.55)  # half way between 1 and 0.1
    assert values[2] == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi / 4)) / 2)
    assert values[8:] == pytest.approx([0.1] * 3)  # a run that goes on stays there
    assert values[:9] == sorted(values[:9], reverse=True)


def test_cosine_begins_after_the_warm_up() -> None:
    schedule = ScheduleConfig(lr_schedule='cosine', lr_final_fraction=0.0, lr_warmup_steps=2)
    assert factors(schedule, 6, range(7)) == pytest.approx([0.5, 1, 1, 0.85355, 0.5, 0.14645, 0], abs=1e-5)


def test_warm_up_longer_than_the_run() -> None:
    schedule = ScheduleConfig(lr_schedule='cosine', lr_warmup_steps=10)
    assert factors(schedule, 4, range(4)) == pytest.approx([0.1, 0.2, 0.3, 0.4])


def rates(config: Config) -> list[float]:
    """What TensorBoard shows, update by update."""
    shown = scalars(Path(config.report.summary_dir) / 'train', 'learning_rate')
    assert list(shown) == list(range(1, len(shown) + 1))
    return list(shown.values())


def test_tensorboard_shows_the_rate_of_every_update(tmp_path: Path) -> None:
    config = toy_config(tmp_path, train=8, batch_size=2, epochs=2)
    schedule = replace(config.schedule, lr_schedule='cosine', lr_warmup_steps=2, lr_final_fraction=0.01)
    config = replace(config, schedule=schedule)
    run_training(config)
    expected = [config.optimizer.learning_rate * factor for factor in factors(schedule, 8, range(8))]
    assert rates(config) == pytest.approx(expected, rel=1e-5)


def test_the_optimizer_uses_it(tmp_path: Path) -> None:
    """Adam's first update moves every weight with a gradient by the learning rate."""
    config = toy_config(tmp_path, train=2, batch_size=2, epochs=1)
    config = replace(config, schedule=replace(config.schedule, lr_warmup_steps=4))
    run_training(config)
    path = tf.train.latest_checkpoint(config.checkpoints.save_dir)
    bias = tf.train.load_variable(path, 'layer_6/bias')  # starts at 0
    assert abs(bias).max() == pytest.approx(config.optimizer.learning_rate / 4, rel=1e-3)


def test_plateau_reductions_lower_a_schedule(tmp_path: Path) -> None:
    """No dev loss is lower by `es_min_delta`: the second epoch ends on a plateau."""
    config = toy_config(tmp_path, train=4, dev=2, batch_size=2, epochs=3)
    schedule = replace(
        config.schedule,
        lr_warmup_steps=3,
        reduce_lr_on_plateau=True,
        plateau_epochs=1,
        plateau_reduction=0.5,
        es_min_delta=1e9,
    )
    config = replace(config, schedule=schedule)
    run_training(config)
    base = config.optimizer.learning_rate
    shown = scalars(Path(config.report.summary_dir) / 'train', 'learning_rate')
    assert shown[1] == pytest.approx(base / 3, rel=1e-5)
    assert shown[2] == pytest.approx(base * 2 / 3, rel=1e-5)
    assert shown[max(shown)] == pytest.approx(base / 2, rel=1e-5)


def test_a_training_that_begins_with_other_weights_begins_its_schedule(tmp_path: Path) -> None:
    """Though its updates are counted on."""
    first = toy_config(tmp_path / 'first', train=4, batch_size=2, epochs=1)
    run_training(first)
    second = toy_config(tmp_path / 'second', train=4, batch_size=2, epochs=1)
    checkpoints = replace(second.checkpoints, load_dir=first.checkpoints.save_dir)
    second = replace(second, checkpoints=checkpoints, schedule=replace(second.schedule, lr_warmup_steps=4))
    run_training(second)
    shown = scalars(Path(second.report.summary_dir) / 'train', 'learning_rate')
    base = second.optimizer.learning_rate
    assert shown == pytest.approx({3: base / 4, 4: base / 2}, rel=1e-5)
