"""The evaluation step: the same variables, nothing changed."""

from __future__ import annotations

import numpy as np
import pytest

from .conftest import Case
from .test_faults import assert_same
from .toy import Reference, ToyData, ToyJob


def test_evaluation_shares_the_variables(case: Case) -> None:
    data = ToyData.random(7)
    with ToyJob(case.create(), data, batch_size=2, evaluation=True) as job:
        assert list(job.variables) == job.trained_variables
        job.rest_of_epoch()
        trained = job.state()
        job.start()
        results = job.rest_of_epoch(job.evaluation)
        assert_same(trained, job.state())
    total = sum(result.loss_sum for result in results)
    expected = Reference(trained['w:0'].astype(np.float64), float(trained['b:0'])).loss(data, list(range(7)))
    assert total / 7 == pytest.approx(expected, rel=1e-4)
    assert not any(result.applied for result in results)


def test_evaluation_has_scopes_of_its_own(case: Case) -> None:
    with ToyJob(case.create(), ToyData.random(3), batch_size=1, evaluation=True) as job:
        names = [operation.name for operation in job.graph.get_operations()]
        assert job.evaluation.train_op is None
        for tower in range(job.strategy.towers):
            forward = [name for name in names if name.startswith(f'evaluation/tower_{tower}/')]
            assert any('MatVec' in name for name in forward)
            assert not any('gradients' in name for name in forward)


def test_bad_samples_are_named_and_left_out(case: Case) -> None:
    data = ToyData.random(6).with_sample(4, y=np.nan)
    with ToyJob(case.create(), data, batch_size=2, evaluation=True) as job:
        results = job.rest_of_epoch(job.evaluation)
    assert [name for result in results for name in result.bad_names] == ['sample_4']
    assert sum(result.count for result in results) == 5
    total = sum(result.loss_sum for result in results)
    assert total / 5 == pytest.approx(Reference(np.zeros(3)).loss(data, [0, 1, 2, 3, 5]), rel=1e-4)


def test_empty_data(case: Case) -> None:
    with ToyJob(case.create(), ToyData.random(0), batch_size=2, evaluation=True) as job:
        assert job.rest_of_epoch() == []
        assert job.rest_of_epoch(job.evaluation) == []
        assert job.state()['global_step:0'] == 0
