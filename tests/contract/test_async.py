"""Towers that update on their own: each update whole, each sample used once, whoever comes first."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.parallel.strategy import StepResult, TowerOutput

from .conftest import asynchronous
from .test_faults import assert_same
from .toy import BETA1, BETA2, Reference, ToyBatch, ToyData, ToyJob, counted, summed, toy_losses, toy_tower

TOWERS = pytest.mark.parametrize('towers', [2, 3])


def job_of(towers: int, data: ToyData, *, accumulate_steps: int = 1, **options: Any) -> ToyJob:
    """Batches of one sample."""
    return ToyJob(asynchronous(towers).create(accumulate_steps=accumulate_steps), data, 1, **options)


def samples(results: list[StepResult]) -> list[int]:
    return sorted(index for rows in counted(results) for index in rows)


def staleness(result: StepResult) -> float:
    return result.measures['staleness']


def assert_whole_updates(state: dict[str, np.ndarray], updates: int) -> None:
    """Adam's decay powers and the global step advanced once an update, in float32 as TensorFlow multiplies."""
    assert state['global_step:0'] == updates
    for name, beta in (('beta1_power:0', BETA1), ('beta2_power:0', BETA2)):
        power = np.float32(beta)
        for _ in range(updates):
            power *= np.float32(beta)
        assert state[name] == power


def tower_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith('tower_')]


class Gates:
    """Tower 1 reads the parameters, lets tower 0 go on for `ahead` batches, and waits until the test opens its gate.

    The gates are queues: who waits for one occupies no thread of TensorFlow's. Other towers run freely.
    """

    open: tf.Operation
    """Lets one batch of tower 1 pass."""

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead

    def tower(self, batch: ToyBatch) -> TowerOutput:
        """`toy_tower` that returns the parameters' values before and after it waited, too."""
        tower = tf.compat.v1.get_default_graph().get_name_scope()
        losses = toy_losses(batch)
        before = tf.identity(self._read())
        with tf.device('/cpu:0'):
            if tower == 'tower_0':
                self._entered, self._gate = (tf.queue.FIFOQueue(100, tf.int32, []) for _ in range(2))
                self.open = self._gate.enqueue(0)
                passed = self._entered.dequeue()
            else:
                with tf.control_dependencies([losses, before]):
                    entered = self._entered.enqueue_many([[0] * self._ahead])
                with tf.control_dependencies([entered]):
                    passed = self._gate.dequeue()
        with tf.control_dependencies([passed]):
            output = summed(tf.identity(losses), batch)
            after = tf.identity(self._read())
        return replace(output, per_sample={**output.per_sample, 'before': before, 'after': after})

    @contextmanager
    def opened_at_the_end_of_tower_0(self, job: ToyJob) -> Iterator[None]:
        """Opens the gate for tower 1 when tower 0's thread has ended, while the test waits for the next result."""

        def wait_and_open() -> None:
            while 'tower_0' in tower_threads():
                time.sleep(0.01)
            job.session.run(self.open)

        helper = threading.Thread(target=wait_and_open)
        helper.start()
        yield
        helper.join()

    @staticmethod
    def _read() -> tf.Tensor:
        with tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), reuse=True):
            return tf.compat.v1.get_variable('w', [3])


@TOWERS
@pytest.mark.parametrize('batch_size', [1, 2])
def test_every_sample_once(towers: int, batch_size: int) -> None:
    with ToyJob(asynchronous(towers).create(), ToyData.random(7), batch_size) as job:
        for count in (1, 3, 5, 7):
            job.start_with(count)
            results = job.rest_of_epoch()
            assert samples(results) == list(range(count))
            assert len(results) == -(-count // batch_size)
            assert all(result.applied for result in results)
            assert sum(result.totals['rows'] for result in results) == count
            assert job.state()['global_step:0'] == len(results)
        assert tower_threads() == []


@TOWERS
def test_racing_towers_make_whole_updates(towers: int) -> None:
    count = 600
    with job_of(towers, ToyData.random(count)) as job:
        results = job.rest_of_epoch()
        assert_whole_updates(job.state(), count)
        remark = job.strategy.epoch_remark()
    assert samples(results) == list(range(count))
    values = [staleness(result) for result in results]
    assert max(values) > 0, 'the towers did not race'
    assert min(values) >= 0
    assert remark == f'staleness {np.mean(values):.1f} mean, {max(values):.0f} max'
    assert job.strategy.epoch_remark() == ''


class _SlowAdam(tf.compat.v1.train.AdamOptimizer):
    """Takes its time between reading the decay powers and writing them."""

    def _finish(self, update_ops: list[tf.Operation], name_scope: str) -> tf.Operation:
        powers = self._get_beta_accumulators()
        with tf.control_dependencies(update_ops):
            read = [power.read_value() for power in powers]
        with tf.control_dependencies(read):
            slept = tf.numpy_function(lambda: time.sleep(0.003), [], [])
        with tf.control_dependencies([slept]):
            betas = (self._beta1_t, self._beta2_t)
            written = [power.assign(old * beta) for power, old, beta in zip(powers, read, betas, strict=True)]
        return tf.group(*update_ops, *written, name=name_scope)


@TOWERS
def test_no_update_gets_between_another(towers: int) -> None:
    with job_of(towers, ToyData.random(60), make_optimizer=partial(_SlowAdam, 0.1, BETA1, BETA2)) as job:
        job.rest_of_epoch()
        assert_whole_updates(job.state(), 60)


def test_staleness_and_the_end_of_the_data_in_one_tower() -> None:
    """Tower 1 computes on the first parameters and applies after three updates, when tower 0 has nothing left."""
    data = ToyData.random(4)
    gates = Gates(ahead=3)
    with job_of(2, data, tower_fn=gates.tower) as job:
        others = [job.step() for _ in range(3)]
        with gates.opened_at_the_end_of_tower_0(job):
            late = job.step()
        with pytest.raises(tf.errors.OutOfRangeError):
            job.step()
        state = job.state()
        remark = job.strategy.epoch_remark()
    assert [staleness(result) for result in [*others, late]] == [0, 0, 0, 3]
    assert remark == 'staleness 0.8 mean, 3 max'
    assert samples([*others, late]) == [0, 1, 2, 3]
    reference = Reference(np.zeros(3))
    (own,) = counted([late])
    gradient = reference.gradient(data, own)
    for rows in counted(others):
        reference.update(data, rows)
    reference.apply(gradient)
    np.testing.assert_allclose(state['w:0'], reference.w, rtol=1e-4, atol=1e-6)
    assert state['b:0'] == pytest.approx(reference.b, rel=1e-4)


def test_a_tower_sees_one_value_of_a_parameter() -> None:
    """Though it reads twice, and three updates happen between."""
    gates = Gates(ahead=3)
    with job_of(2, ToyData.random(4), tower_fn=gates.tower) as job:
        for _ in range(3):
            job.step()
        changed = job.state()['w:0']
        job.session.run(gates.open)
        (tower,) = job.step().per_tower
    assert np.abs(changed).max() > 0.05
    assert tower['before'].tolist() == tower['after'].tolist() == [0, 0, 0]


def _looping_tower(batch: ToyBatch) -> TowerOutput:
    """Reads its parameters inside of a loop, and behind it."""
    _, losses = tf.compat.v1.while_loop(
        lambda i, _: i < 3,
        lambda i, total: (i + 1, total + toy_losses(batch) / 3),
        [0, tf.zeros_like(batch.y)],
    )
    return summed((losses + toy_losses(batch)) / 2, batch)


def test_parameters_that_are_read_in_a_loop() -> None:
    data = ToyData.random(5)
    with job_of(1, data, tower_fn=_looping_tower) as job, job_of(1, data) as plain:
        job.rest_of_epoch()
        plain.rest_of_epoch()
        np.testing.assert_allclose(job.state()['w:0'], plain.state()['w:0'], rtol=1e-5)


@TOWERS
@pytest.mark.parametrize('steps', [2, 3])
def test_each_tower_adds_up_its_own_batches(towers: int, steps: int) -> None:
    with job_of(towers, ToyData.random(13), accumulate_steps=steps) as job:
        for updates_before in range(2):
            job.start()
            results = job.rest_of_epoch()
            assert samples(results) == list(range(13))
            assert all(1 <= len(result.per_tower) <= steps for result in results)
            # The last update of each tower may have fewer batches.
            assert math.ceil(13 / steps) <= len(results) <= 13 // steps + towers
            if not updates_before:
                first = len(results)
        assert_whole_updates(job.state(), first + len(results))


def test_staleness_of_accumulated_batches_counts_from_the_first() -> None:
    """Tower 1 passes with its first batch and waits with its second, while tower 0 makes two updates."""
    gates = Gates(ahead=2)
    with job_of(2, ToyData.random(6), accumulate_steps=2, tower_fn=gates.tower) as job:
        job.session.run(gates.open)
        others = [job.step() for _ in range(2)]
        with gates.opened_at_the_end_of_tower_0(job):
            late = job.step()
    assert [staleness(result) for result in [*others, late]] == [0, 0, 2]
    assert [len(result.per_tower) for result in [*others, late]] == [2, 2, 2]


@TOWERS
def test_a_bad_sample_skips_its_update_only(towers: int) -> None:
    data = ToyData.random(40).with_sample(11, y=np.nan)
    with job_of(towers, data) as job:
        results = job.rest_of_epoch()
        state = job.state()
    assert [result.bad_names for result in results if not result.applied] == [['sample_11']]
    assert len(results) == 40
    assert_whole_updates(state, 39)
    assert all(np.all(np.isfinite(value)) for value in state.values())


@TOWERS
def test_an_exception_in_one_tower_ends_all(towers: int) -> None:
    """Once, after the results of the steps that were under way; then another epoch can begin."""
    count, wrong = 200, 40

    def fragile(batch: ToyBatch) -> TowerOutput:
        with tf.control_dependencies([tf.debugging.assert_none_equal(batch.indices, wrong, message='no such voice')]):
            return toy_tower(batch._replace(x=tf.identity(batch.x)))

    with job_of(towers, ToyData.random(count), tower_fn=fragile) as job:
        results: list[StepResult] = []
        with pytest.raises(tf.errors.InvalidArgumentError, match='no such voice'):
            results.extend(iter(job.step, None))
        assert tower_threads() == []
        assert wrong <= len(results) < wrong + 2 * towers
        assert_whole_updates(job.state(), len(results))
        rest = job.rest_of_epoch()
        assert samples([*results, *rest]) == [row for row in range(count) if row != wrong]
        assert_whole_updates(job.state(), count - 1)


def test_the_steps_under_way_are_finished_when_another_fails() -> None:
    gates = Gates(ahead=1)

    def fails_in_tower_0(batch: ToyBatch) -> TowerOutput:
        output = gates.tower(batch)
        if not tf.compat.v1.get_default_graph().get_name_scope().startswith('tower_0'):
            return output
        with tf.control_dependencies([output.loss_sum]):
            wrong = tf.debugging.Assert(False, ['no such voice'])
        with tf.control_dependencies([wrong]):
            return replace(output, loss_sum=tf.identity(output.loss_sum))

    with job_of(2, ToyData.random(10), tower_fn=fails_in_tower_0) as job:
        with gates.opened_at_the_end_of_tower_0(job):
            assert job.step().applied
        with pytest.raises(tf.errors.InvalidArgumentError, match='no such voice'):
            job.step()
        assert_whole_updates(job.state(), 1)


def test_an_exception_of_python() -> None:
    def wrong(_: object) -> None:
        raise ZeroDivisionError('not a tensor')

    with job_of(2, ToyData.random(20)) as job:
        results: list[StepResult] = []
        with pytest.raises(ZeroDivisionError, match='not a tensor'):
            results.extend(iter(partial(job.step, fetches=wrong), None))
        assert tower_threads() == []
        assert_whole_updates(job.state(), len(results))
        assert samples([*results, *job.rest_of_epoch()]) == list(range(20))  # it failed before it took a batch


@TOWERS
def test_nothing_changes_while_paused(towers: int) -> None:
    count = 300
    with job_of(towers, ToyData.random(count)) as job:
        results = []
        for _ in range(5):
            results += [job.step() for _ in range(20)]
            with job.strategy.paused():
                before = job.state()
                time.sleep(0.05)
                assert_same(before, job.state())
                assert_whole_updates(before, int(before['global_step:0']))
                assert before['global_step:0'] >= len(results)
        results += job.rest_of_epoch()
        with job.strategy.paused():  # nobody is at work
            assert_whole_updates(job.state(), count)
    assert samples(results) == list(range(count))


@TOWERS
def test_stopped_and_started_again(towers: int) -> None:
    with job_of(towers, ToyData.random(100)) as job:
        for _ in range(3):
            job.start()
            before = int(job.state()['global_step:0'])
            for _ in range(10):
                job.step()
            assert len(tower_threads()) == towers
            job.strategy.stop()
            assert tower_threads() == []
            state = job.state()
            updates = int(state['global_step:0'])
            assert_whole_updates(state, updates)
            assert 10 <= updates - before <= 10 + 2 * towers  # they did not run away
        job.start()
        assert samples(job.rest_of_epoch()) == list(range(100))


def test_the_session_can_be_closed_after_a_stop() -> None:
    job = job_of(2, ToyData.random(1000))
    job.step()
    job.strategy.stop()
    job.session.close()
    job.strategy.stop()  # a second time is no harm
    assert tower_threads() == []


@TOWERS
def test_evaluation_between_training_steps(towers: int) -> None:
    """All towers together, as ever, while the training's threads wait."""
    data = ToyData.random(30)
    with job_of(towers, data, evaluation=True) as job:
        trained = [job.step() for _ in range(5)]
        evaluated = job.rest_of_epoch(job.evaluation)
        trained += job.rest_of_epoch()
    assert [len(result.per_tower) for result in evaluated] == [towers] * 10 * (3 // towers) or towers == 2
    assert samples(evaluated) == samples(trained) == list(range(30))
    assert not any(result.applied for result in evaluated)


@TOWERS
def test_further_fetches_go_to_one_step(towers: int) -> None:
    with job_of(towers, ToyData.random(50)) as job:
        results = [job.step() for _ in range(10)]
        results.append(job.step(fetches=lambda ops: [ops.gradient_norm, ops.loss]))
        results += job.rest_of_epoch()
    (fetched,) = [result for result in results if result.fetched is not None]
    assert fetched.fetched == pytest.approx([fetched.gradient_norm, fetched.loss_sum])


def test_fetches_that_come_too_late_wait_for_the_next_epoch() -> None:
    """Who asks with the last result of an epoch asks too late: no step begins then."""
    with job_of(2, ToyData.random(2)) as job:
        fetched = []
        for _ in range(20):
            job.start()
            fetched += [job.step().fetched, job.step(fetches=lambda ops: ops.loss).fetched]
            assert job.rest_of_epoch() == []
    assert len([value for value in fetched if value is not None]) >= 10


def test_one_tower_does_the_steps_that_are_asked_for() -> None:
    """So a run with one tower repeats itself, and no step is made that nobody sees."""
    with job_of(1, ToyData.random(5)) as job:
        for steps in range(1, 4):
            job.step()
            time.sleep(0.05)
            assert job.state()['global_step:0'] == steps
