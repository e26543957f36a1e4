from __future__ import annotations

import math

import pytest

from deepspeech_training.parallel.strategy import StepResult
from deepspeech_training.parallel.timing import Stragglers


def result(*seconds: float, waited: float = 0.0, whole: float = 1.0) -> StepResult:
    """A step whose towers took so long."""
    towers = {f'tower_{tower}/seconds': value for tower, value in enumerate(seconds)}
    measures = {'learning_rate': 0.1, 'straggler_wait_seconds': waited, 'towers_seconds': whole, **towers}
    return StepResult(0.0, 1, [], {}, measures=measures)


def remark(*steps: StepResult) -> str:
    stragglers = Stragglers()
    for each in steps:
        stragglers.add(each)
    return stragglers.remark()


def test_share_of_waiting() -> None:
    shown = Stragglers().add(result(0.5, 1.5, waited=0.5, whole=2.0)).measures
    assert shown == {
        'learning_rate': 0.1,
        'tower_0/seconds': 0.5,
        'tower_1/seconds': 1.5,
        'straggler_wait_share': 0.25,
    }


def test_steps_without_times_are_left_alone() -> None:
    one = StepResult(0.0, 1, [], {}, measures={'averaging_seconds': 0.1})
    stragglers = Stragglers()
    assert stragglers.add(one) is one
    assert stragglers.remark() == ''


def test_one_tower_waits_for_nobody() -> None:
    one = StepResult(0.0, 1, [], {}, measures={'tower_3/seconds': 0.1})
    filler = StepResult(0.0, 1, [], {}, measures={'tower_3/seconds': math.nan, 'averaging_seconds': 0.1})
    stragglers = Stragglers()
    assert stragglers.add(one) is one
    assert stragglers.add(filler).measures == {'averaging_seconds': 0.1}
    assert stragglers.remark() == ''


def test_a_tower_with_filler_says_nothing() -> None:
    stragglers = Stragglers()
    assert stragglers.add(result(1.0, math.nan)).measures == {'learning_rate': 0.1}
    assert stragglers.remark() == ''


def test_the_slow_one_is_named_by_its_mean() -> None:
    steps = [result(1.0, 1.0, 1.0, 1.0), result(1.0, 1.1, 1.0, 2.0), result(math.nan, 9.0, 9.0, 9.0)]
    assert remark(*steps) == 'slow: tower_3 1.5 s a step, median of the towers 1.02 s'


@pytest.mark.parametrize(('slowest', 'named'), [(1.19, False), (1.21, True)])
def test_a_fifth_slower_than_the_median(slowest: float, named: bool) -> None:
    assert ('tower_2' in remark(result(1.0, 1.0, slowest))) == named


def test_several_slow_towers() -> None:
    assert remark(result(1, 1, 1, 2, 3)) == 'slow: tower_3 2 s a step, tower_4 3 s a step, median of the towers 1 s'


def test_each_epoch_begins_anew() -> None:
    stragglers = Stragglers()
    stragglers.add(result(1.0, 1.0, 5.0))
    assert 'tower_2' in stragglers.remark()
    stragglers.add(result(1.0, 1.0, 1.0))
    assert stragglers.remark() == ''
