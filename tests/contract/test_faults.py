"""Losses and gradients that are not finite, exceptions, the end of the data: nothing half done, nothing lost."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.errors import FlagError
from deepspeech_training.launch import find_launch
from deepspeech_training.parallel.strategy import TowerOutput

from .conftest import Case
from .toy import Reference, ToyBatch, ToyData, ToyJob, toy_tower

BATCH = 2

only_in_one_process = pytest.mark.skipif(
    find_launch().of_several, reason='in a job of several processes, what fails in one ends all of them'
)


def assert_same(state: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    """To the last bit."""
    assert {name: value.tobytes() for name, value in state.items()} == {
        name: value.tobytes() for name, value in other.items()
    }


def group(case: Case) -> int:
    """Samples an update."""
    return BATCH * case.batches_per_update


@pytest.mark.parametrize('value', [np.nan, np.inf, 1e30])
def test_one_bad_sample_skips_its_update_only(case: Case, value: float) -> None:
    """The second step's last sample has a loss that is not finite: it is in the last tower."""
    good = ToyData.random(3 * group(case))
    bad = 2 * group(case) - 1
    data = good.with_sample(bad, y=value)
    reference = Reference(np.zeros(3))
    with ToyJob(case.create(), data, BATCH) as job:
        first = job.step()
        before = job.state()
        second = job.step()
        assert_same(before, job.state())
        third = job.step()
        after = job.state()
    assert [first.applied, second.applied, third.applied] == [True, False, True]
    assert [first.bad_names, second.bad_names, third.bad_names] == [[], [f'sample_{bad}'], []]
    assert second.count == group(case) - 1
    reference.update(data, list(range(group(case))))
    mean = reference.loss(data, list(range(group(case), bad)))
    assert second.loss_sum / second.count == pytest.approx(mean, rel=1e-4)
    reference.update(data, list(range(2 * group(case), 3 * group(case))))
    np.testing.assert_allclose(after['w:0'], reference.w, rtol=1e-4)
    assert after['global_step:0'] == 2


def test_all_samples_bad(case: Case) -> None:
    data = ToyData.random(group(case))
    data.y[:] = np.nan
    with ToyJob(case.create(), data, BATCH) as job:
        before = job.state()
        result = job.step(fetches=lambda ops: ops.loss)
        assert_same(before, job.state())
    assert not result.applied
    assert result.bad_names == [f'sample_{position}' for position in range(group(case))]
    assert (result.count, result.loss_sum, result.fetched) == (0, 0.0, 0.0)


@pytest.mark.parametrize('huge', [3e38, 3e19], ids=['gradient overflows', 'norm overflows'])
def test_gradient_that_is_not_finite(case: Case, huge: float) -> None:
    """A feature whose weight is 0: the loss is finite, the gradient or its square is not."""
    data = ToyData.random(2 * group(case)).with_sample(group(case) - 1, x=[0, 0, huge], y=5)
    with ToyJob(case.create(), data, BATCH) as job:
        before = job.state()
        result = job.step()
        assert_same(before, job.state())
        assert job.step().applied
        assert all(np.all(np.isfinite(value)) for value in job.state().values())
    assert not result.applied
    assert result.bad_names == []
    assert not np.isfinite(result.gradient_norm)
    assert result.count == group(case)
    assert np.isfinite(result.loss_sum)


def test_only_filler(case: Case) -> None:
    """A step in which no sample counts changes nothing and has no NaN."""

    def filler(batch: ToyBatch) -> TowerOutput:
        return toy_tower(batch._replace(weights=tf.zeros_like(batch.weights)))

    with ToyJob(case.create(), ToyData.random(4), BATCH, tower_fn=filler) as job:
        before = job.state()
        result = job.step(
            fetches=lambda ops: [ops.loss, [gradient for gradient, _ in ops.gradients if gradient is not None]]
        )
        assert_same(before, job.state())
    assert not result.applied
    assert (result.count, result.loss_sum, result.bad_names, result.gradient_norm) == (0, 0.0, [], 0.0)
    assert result.fetched[0] == 0
    assert all(np.all(gradient == 0) for gradient in result.fetched[1])


@only_in_one_process
def test_exception_in_the_last_tower(case: Case) -> None:
    """It reaches the caller, leaves the parameters alone, and the next step goes on."""
    data = ToyData.random(3 * group(case))
    wrong = 2 * group(case) - 1

    def fragile(batch: ToyBatch) -> TowerOutput:
        with tf.control_dependencies([tf.debugging.assert_none_equal(batch.indices, wrong, message='no such voice')]):
            return toy_tower(batch._replace(x=tf.identity(batch.x)))

    with ToyJob(case.create(), data, BATCH, tower_fn=fragile) as job:
        assert job.step().applied
        before = job.state()
        with pytest.raises(tf.errors.InvalidArgumentError, match='no such voice'):
            job.step()
        assert_same(before, job.state())
        assert job.step().applied
        with pytest.raises(tf.errors.OutOfRangeError):
            job.step()


def test_end_of_data(case: Case) -> None:
    """It raises, changes nothing, and another epoch can begin."""
    with ToyJob(case.create(), ToyData.random(5), BATCH, evaluation=True) as job:
        steps = len(job.rest_of_epoch())
        job.rest_of_epoch(job.evaluation)
        before = job.state()
        for ops in (job.training, job.evaluation):
            with pytest.raises(tf.errors.OutOfRangeError):
                job.step(ops)
        assert_same(before, job.state())
        job.start()
        assert len(job.rest_of_epoch()) == steps == -(-5 // group(case))


@only_in_one_process
def test_session_without_the_devices(case: Case) -> None:
    """It is refused by name, rather than have soft placement put all towers on one device."""
    strategy = case.create()
    with ToyJob(strategy, ToyData.random(4), BATCH) as job:
        plain = tf.compat.v1.ConfigProto(allow_soft_placement=True)
        with tf.compat.v1.Session(graph=job.graph, config=plain) as session:
            if strategy.towers == 1:
                strategy.after_restore(session)
            else:
                with pytest.raises(FlagError, match=r'lacks /cpu:1.*--cpu_towers'):
                    strategy.after_restore(session)
