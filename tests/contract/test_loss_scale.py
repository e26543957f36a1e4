"""Loss scaling in every strategy. It needs no float16: values of float32 can be too large as well."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deepspeech_training.parallel.loss_scale import INITIAL, loss_scales
from deepspeech_training.parallel.strategy import StepResult, TowerOutput

from .conftest import Case
from .test_faults import assert_same
from .toy import ToyBatch, ToyData, ToyJob, toy_tower

LARGE = 1e15
"""A feature that makes a gradient 1e16: the square of that times the scale is finite up to 1024."""

TOO_LARGE = 3e19
"""The same for no scale at all."""


def scaled_tower(batch: ToyBatch) -> TowerOutput:
    return replace(toy_tower(batch), needs_loss_scale=True)


def with_large_values(case: Case, updates: int, value: float, steps: int = 1) -> ToyData:
    """Data in which each update of so many steps with batch 1 has one sample with a feature of this value."""
    group = case.batches_per_update * steps
    data = ToyData.random(updates * group)
    for position in range(group - 1, updates * group, group):
        data = data.with_sample(position, x=[0, 0, value], y=5)
    return data


def outcome(result: StepResult) -> tuple[bool, bool, float]:
    return result.applied, result.overflowed, result.measures['loss_scale']


@pytest.mark.parametrize(('steps', 'clip'), [(1, 0.0), (1, 0.5), (2, 0.5)])
def test_a_scale_changes_nothing(case: Case, steps: int, clip: float) -> None:
    """Not the last bit: it is a power of 2. Nor do checkpoints have it."""
    data = ToyData.random(13)

    def create(tower_fn=toy_tower) -> ToyJob:  # type: ignore[no-untyped-def]
        return ToyJob(case.create(accumulate_steps=steps, grad_clip_norm=clip), data, 2, tower_fn=tower_fn)

    with create() as plain, create(scaled_tower) as job:
        for _ in range(2):
            plain.start()
            job.start()
            for ours, theirs in zip(job.rest_of_epoch(), plain.rest_of_epoch(), strict=True):
                assert outcome(ours) == (True, False, INITIAL)
                assert ours.gradient_norm == pytest.approx(theirs.gradient_norm, rel=1e-6)
        assert_same(job.state(), plain.state())


@pytest.mark.parametrize('steps', [1, 2])
def test_an_overflow_skips_the_update_and_halves_the_scale(case: Case, steps: int) -> None:
    value = LARGE * (case.batches_per_update if steps == 1 else 1)  # several batches are added up, divided at the end
    data = with_large_values(case, 6, value, steps)
    with (
        ToyJob(case.create(accumulate_steps=steps), data, 1, tower_fn=scaled_tower) as job,
        ToyJob(case.create(accumulate_steps=steps), data, 1) as plain,
    ):
        first = job.state()
        for halvings in range(5):
            assert outcome(job.step()) == (False, True, INITIAL / 2**halvings)
            assert not plain.step().overflowed
        assert_same(first, job.state())
        plain.initialize()
        ours, theirs = job.step(), plain.step()
        assert outcome(ours) == (True, False, INITIAL / 2**5)
        assert ours.gradient_norm == pytest.approx(theirs.gradient_norm, rel=1e-6)
        assert_same(job.state(), plain.state())


def test_gradients_that_no_scale_makes_finite_are_bad_steps(case: Case) -> None:
    """At its minimum the scale is not to blame any more, so that the loop can give up."""
    with ToyJob(case.create(), with_large_values(case, 17, TOO_LARGE), 1, tower_fn=scaled_tower) as job:
        first = job.state()
        outcomes = [outcome(job.step()) for _ in range(17)]
        assert_same(first, job.state())
    assert outcomes == [*((False, True, INITIAL / 2**n) for n in range(15)), *2 * [(False, False, 1.0)]]


def test_a_loss_that_is_not_finite_leaves_the_scale(case: Case) -> None:
    data = ToyData.random(3 * case.batches_per_update).with_sample(0, y=np.nan)
    with ToyJob(case.create(), data, 1, tower_fn=scaled_tower) as job:
        assert [outcome(job.step()) for _ in range(2)] == [(False, False, INITIAL), (True, False, INITIAL)]


def test_many_good_updates_double_it(case: Case) -> None:
    data = ToyData.random(3 * case.batches_per_update)
    with ToyJob(case.create(), data, 1, tower_fn=scaled_tower) as job:
        with job.graph.as_default():
            for scale in loss_scales():
                scale.load(np.array([INITIAL, 1998], np.float32), job.session)
        scales = [job.step().measures['loss_scale'] for _ in range(3)]
    assert scales == [INITIAL, INITIAL, 2 * INITIAL]
