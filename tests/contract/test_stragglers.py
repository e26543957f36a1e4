"""What a step shows of its towers' speed, with a tower that sleeps."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import deepspeech_training.train
from deepspeech_training.parallel.strategy import StepResult, TowerFn, TowerOutput
from tests.helpers import run_training, scalars
from tests.toy import toy_config

from .conftest import Case, asynchronous, hybrid, sync
from .toy import ToyBatch, ToyData, ToyJob, toy_tower

SLEEP = 0.2  # seconds


def slow(tower_fn: TowerFn, field: str = 'x') -> TowerFn:
    """`tower_fn` that sleeps in tower 1, before it computes anything from the batch's `field`."""

    def tower(batch: Any) -> TowerOutput:
        if tf.compat.v1.get_default_graph().get_name_scope() != 'tower_1':
            return tower_fn(batch)
        return tower_fn(batch._replace(**{field: after_sleep(getattr(batch, field))}))

    return tower


def after_sleep(tensor: tf.Tensor) -> tf.Tensor:
    with tf.control_dependencies([tensor]):
        slept = tf.numpy_function(lambda: time.sleep(SLEEP), [], [])
    with tf.control_dependencies([slept]):
        return tf.identity(tensor)


def typical(results: list[StepResult], measure: str) -> float:
    """The median: a busy machine makes some steps slow."""
    return statistics.median(each.measures[measure] for each in results)


class LateBatches(ToyJob):
    """Tower 1 gets its batches late."""

    def _batches(self, towers: int) -> tf.data.Dataset:
        def wait(batch: ToyBatch) -> ToyBatch:
            late = tf.equal(batch.indices[0] % 2, 1)
            return batch._replace(x=tf.cond(late, lambda: after_sleep(batch.x), lambda: batch.x))

        return super()._batches(towers).map(wait)


@pytest.mark.parametrize('steps', [1, 2])
def test_times_of_the_towers(steps: int) -> None:
    """With several batches an update their times add up; the share of waiting does not."""
    strategy = hybrid(3).create(accumulate_steps=steps)
    with ToyJob(strategy, ToyData.random(9 * 2 * steps), 1, tower_fn=slow(toy_tower)) as job:
        job.step()  # warms up
        strategy.epoch_remark()
        results = job.rest_of_epoch()
        remark = strategy.epoch_remark()
    towers = [f'tower_{tower}/seconds' for tower in range(3)]
    assert all(set(each.measures) == {*towers, 'straggler_wait_share', 'averaging_seconds'} for each in results)
    fast, slept, other = (typical(results, name) for name in towers)
    assert steps * 0.9 * SLEEP <= slept < steps * 2 * SLEEP
    assert max(fast, other) < steps * SLEEP / 2
    assert 0.4 < typical(results, 'straggler_wait_share') < 0.7  # two of three towers wait most of the time
    assert 0 <= typical(results, 'averaging_seconds') < SLEEP / 2
    assert remark.startswith('slow: tower_1 0.')
    assert 'tower_0' not in remark
    assert strategy.epoch_remark() == ''


def test_a_late_batch_makes_no_tower_slow() -> None:
    """Not the one that gets it late, nor the others, which wait for it: that is the input's fault."""
    strategy = hybrid(2).create()
    with LateBatches(strategy, ToyData.random(10), 1) as job:
        results = job.rest_of_epoch()
    assert typical(results, 'tower_0/seconds') < SLEEP / 2
    assert typical(results, 'tower_1/seconds') < SLEEP / 2


def test_a_step_with_filler_shows_no_tower() -> None:
    """Five batches on three towers: one has nothing to do in the second step, and is not fast."""
    strategy = hybrid(3).create()
    with ToyJob(strategy, ToyData.random(5), 1) as job:
        first, second = job.rest_of_epoch()
    assert 'tower_2/seconds' in first.measures
    assert set(second.measures) == {'averaging_seconds'}


@pytest.mark.parametrize('case', [hybrid(1), sync(2), asynchronous(2)], ids=lambda case: case.name)
def test_towers_that_do_not_wait_are_not_compared(case: Case) -> None:
    strategy = case.create()
    with ToyJob(strategy, ToyData.random(6), 1) as job:
        results = job.rest_of_epoch()
        assert 'slow' not in strategy.epoch_remark()
    expected = {'hybrid': {'tower_0/seconds', 'averaging_seconds'}, 'sync': set(), 'async': {'staleness'}}
    assert all(set(each.measures) == expected[strategy.name] for each in results)


def test_no_gradient_is_copied_for_the_clocks() -> None:
    """They have no input but control dependencies."""
    with ToyJob(hybrid(2).create(), ToyData.random(4), 1) as job:
        clocks = [op for op in job.graph.get_operations() if op.type == 'Timestamp']
        ready = [op for op in job.graph.get_operations() if op.name.startswith('timing/') and op.type == 'NoOp']
    assert len(clocks) == 8  # for each tower start, loss and end; the weight; the average
    assert {len(op.inputs) for op in [*clocks, *ready]} == {0}
    assert sorted(op.device for op in ready) == ['/device:CPU:0', '/device:CPU:1']
    assert {op.device for op in clocks} == {'/device:CPU:0'}


def test_no_backward_pass_begins_before_the_clock_of_its_weight() -> None:
    """Else the clock could come late, where another thread than the graph's brings the weight."""
    with ToyJob(hybrid(2).create(), ToyData.random(4), 1) as job:
        operations = job.graph.get_operations()
    behind = [op for op in operations if any(before.type == 'Timestamp' for before in op.control_inputs)]
    (weight,) = behind
    assert (weight.type, weight.inputs[0].op.name) == ('Identity', 'sample_weight/div_no_nan')
    assert len(weight.outputs[0].consumers()) >= 2  # each tower's gradients begin with it


def test_in_tensorboard_and_in_the_line_of_the_epoch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tower_fn = deepspeech_training.train.make_tower_fn
    monkeypatch.setattr(
        deepspeech_training.train, 'make_tower_fn', lambda *a, **k: slow(make_tower_fn(*a, **k), 'features')
    )
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    config = toy_config(tmp_path, train=8, batch_size=1, towers=2, n_hidden=8)
    with caplog.at_level('INFO', logger='deepspeech_training'):
        run_training(config)
    folder = Path(config.report.summary_dir) / 'train'
    seconds = scalars(folder, 'tower_1/seconds')
    assert list(seconds) == [1, 2, 3, 4]
    assert min(seconds[step] for step in (2, 3, 4)) >= 0.9 * SLEEP  # the first may come late to the clock
    for tag in ('tower_0/seconds', 'averaging_seconds', 'straggler_wait_share'):
        assert list(scalars(folder, tag)) == [1, 2, 3, 4], tag
    (line,) = [message for message in caplog.messages if message.startswith('Epoch 0 | Training | loss')]
    assert '| slow: tower_1 0.' in line

    caplog.clear()
    with caplog.at_level('INFO', logger='deepspeech_training'):
        longer = replace(config.schedule, epochs=2)
        run_training(replace(config, schedule=longer, parallel=replace(config.parallel, parallel='async')))
    (line,) = [message for message in caplog.messages if message.startswith('Epoch 1 | Training | loss')]
    assert '| staleness ' in line
    assert 'slow' not in line
    assert len(scalars(folder, 'staleness')) == 8
