from __future__ import annotations

import time

import pytest

from deepspeech_training.parallel.strategy import StepResult
from deepspeech_training.totals import EpochTotals, Pace


def result(count: int = 4, waited: float = 0.0) -> StepResult:
    return StepResult(2.0 * count, count, ['bad.wav'], {'audio_seconds': 10.0 * count, 'wait_seconds': waited})


def test_totals_of_an_epoch() -> None:
    totals = EpochTotals()
    assert totals.loss != totals.loss  # NaN: a mean of nothing
    totals.add(result(1))
    totals.add(result(3, waited=0.5))
    assert (totals.loss, totals.count, totals.steps) == (2.0, 4, 2)
    assert totals.totals == {'audio_seconds': 40.0, 'wait_seconds': 0.5}
    assert totals.bad_names == ['bad.wav', 'bad.wav']


def test_rates_of_one_step() -> None:
    pace = Pace(side_by_side=1)
    for waited in (0.0, 0.1):
        time.sleep(0.2)
        rates = pace.add(result(waited=waited))
        assert 4 / 0.5 < rates['examples_per_second'] <= 4 / 0.2
        assert rates['audio_seconds_per_second'] == pytest.approx(10 * rates['examples_per_second'])
        assert waited / 0.5 <= rates['input_wait_share'] <= waited / 0.2


def test_steps_that_end_together_do_not_seem_fast() -> None:
    """Two towers, each with a step in 0.2 seconds, end at the same time: together 8 samples in 0.2 seconds."""
    pace = Pace(side_by_side=2)
    for _ in range(3):
        time.sleep(0.2)
        pace.add(result(waited=0.05))
        rates = pace.add(result(waited=0.05))
        assert 8 / 0.5 < rates['examples_per_second'] <= 8 / 0.2
        assert 0.1 / 0.5 < rates['input_wait_share'] <= 0.1 / 0.2


def test_share_of_waiting_that_began_earlier() -> None:
    pace = Pace(side_by_side=1)
    assert pace.add(result(waited=5.0))['input_wait_share'] == 1.0
