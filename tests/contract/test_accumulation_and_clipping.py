"""Several batches an update, and updates of limited size."""

from __future__ import annotations

import numpy as np
import pytest

from .conftest import Case
from .test_faults import assert_same
from .toy import Reference, ToyData, ToyJob, counted


@pytest.mark.parametrize('steps', [2, 3])
@pytest.mark.parametrize('count', [1, 5, 7, 13])
def test_accumulated_batches_equal_one_larger_batch(case: Case, one_device: Case, steps: int, count: int) -> None:
    """At the end of the data fewer batches are left, and count no more than they should."""
    data = ToyData.random(count)
    with (
        ToyJob(case.create(accumulate_steps=steps), data, 1) as job,
        ToyJob(one_device.create(), data, steps * case.batches_per_update) as single,
    ):
        for _ in range(3):
            job.start()
            single.start()
            results, expected = job.rest_of_epoch(), single.rest_of_epoch()
            assert counted(results) == counted(expected)
            for ours, theirs in zip(results, expected, strict=True):
                assert ours.count == theirs.count
                assert ours.loss_sum == pytest.approx(theirs.loss_sum, rel=1e-5)
                assert ours.gradient_norm == pytest.approx(theirs.gradient_norm, rel=1e-5)
                assert ours.totals == theirs.totals
        state, wanted = job.state(), single.state()
        assert state.keys() == wanted.keys()  # checkpoints do not have the sums
        for name, value in state.items():
            np.testing.assert_allclose(value, wanted[name], rtol=2e-5, atol=1e-6, err_msg=name)


def test_a_bad_sample_skips_the_update_of_its_batches(case: Case) -> None:
    group = 2 * case.batches_per_update
    data = ToyData.random(3 * group).with_sample(group, y=np.nan)
    reference = Reference(np.zeros(3))
    with ToyJob(case.create(accumulate_steps=2), data, 1) as job:
        assert job.step().applied
        before = job.state()
        bad = job.step()
        assert_same(before, job.state())
        assert (bad.applied, bad.bad_names, bad.count) == (False, [f'sample_{group}'], group - 1)
        assert job.step().applied
        state = job.state()
    for rows in (range(group), range(2 * group, 3 * group)):
        reference.update(data, list(rows))
    np.testing.assert_allclose(state['w:0'], reference.w, rtol=1e-4)
    assert state['global_step:0'] == 2


@pytest.mark.parametrize('steps', [1, 2])
def test_gradients_above_the_limit_are_scaled_down(case: Case, steps: int) -> None:
    """By their global norm, after averaging: the direction stays, and TensorBoard shows the norm before."""
    data = ToyData.random(24)
    rows = list(range(steps * case.batches_per_update))
    reference = Reference(np.zeros(3))
    gradient = reference.gradient(data, rows)
    norm = float(np.linalg.norm(gradient))
    for limit in (norm / 4, norm * 4):
        with ToyJob(case.create(accumulate_steps=steps, grad_clip_norm=limit), data, 1) as job:
            result = job.step()
            state = job.state()
        assert result.gradient_norm == pytest.approx(norm, rel=1e-4)
        # After one update Adam's first moment is a tenth of the gradient that it was given.
        given = 10 * np.append(state['w/Adam:0'], state['b/Adam:0'])
        np.testing.assert_allclose(given, gradient * min(1, limit / norm), rtol=1e-4, atol=1e-7)


def test_a_gradient_that_is_not_finite_is_not_clipped_into_one_that_is(case: Case) -> None:
    data = ToyData.random(8).with_sample(0, x=[0, 0, 3e38], y=5)
    with ToyJob(case.create(grad_clip_norm=1.0), data, 1) as job:
        before = job.state()
        assert not job.step().applied
        assert_same(before, job.state())
