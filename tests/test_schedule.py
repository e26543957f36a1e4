from __future__ import annotations

import math

import pytest

from deepspeech_training.config import ScheduleConfig
from deepspeech_training.schedule import BadStepCounter, BestWer, DevLossMonitor


def test_the_best_model_is_kept_for_any_improvement_but_patience_wants_more_than_min_delta() -> None:
    monitor = DevLossMonitor(ScheduleConfig(early_stop=True, es_epochs=2, es_min_delta=0.5))
    decisions = [monitor.update(loss) for loss in (10.0, 9.8, 9.0, 8.9, 8.8)]
    assert [d.is_best for d in decisions] == [True, True, True, True, True]
    assert [d.stop for d in decisions] == [False, False, False, False, True]


def test_early_stop_only_when_asked_for() -> None:
    monitor = DevLossMonitor(ScheduleConfig(early_stop=False, es_epochs=1))
    assert not any(monitor.update(5.0).stop for _ in range(10))


def test_plateau_reduces_every_so_many_epochs_without_improvement() -> None:
    monitor = DevLossMonitor(ScheduleConfig(reduce_lr_on_plateau=True, plateau_epochs=2, es_min_delta=0.0))
    reduced = [monitor.update(loss).reduce_learning_rate for loss in (5.0, 6.0, 6.0, 6.0, 6.0, 4.0, 4.0)]
    assert reduced == [False, False, True, False, True, False, False]


def test_a_loss_that_is_not_finite_is_never_the_best() -> None:
    monitor = DevLossMonitor(ScheduleConfig(early_stop=True, es_epochs=3))
    assert not monitor.update(math.nan).is_best
    assert not monitor.update(math.inf).is_best
    assert monitor.update(7.0).is_best
    assert monitor.best_loss == 7.0
    assert not monitor.update(math.nan).is_best


def test_a_worse_model_is_not_the_best_of_a_resumed_run() -> None:
    assert not DevLossMonitor(ScheduleConfig(), best_loss=3.0).update(4.0).is_best


@pytest.mark.parametrize('limit', [1, 3])
def test_bad_steps_count_in_a_row(limit: int) -> None:
    counter = BadStepCounter(limit)
    for _ in range(limit - 1):
        assert not counter.update(applied=False)
    assert not counter.update(applied=True)
    ends = [counter.update(applied=False) for _ in range(limit)]
    assert ends == [False] * (limit - 1) + [True]
    assert counter.total == 2 * limit - 1


def test_the_best_word_error_rate_is_the_lowest_and_of_equal_ones_that_with_the_lowest_loss() -> None:
    best = BestWer()
    epochs = [(1.0, 9.0), (1.0, 8.0), (1.0, 8.5), (0.5, 9.5), (math.nan, 1.0), (0.4, math.nan), (0.5, 9.5), (0.4, 20.0)]
    assert [best.update(*each) for each in epochs] == [True, True, False, True, False, False, False, True]
    assert (best.wer, best.loss) == (0.4, 20.0)
    assert not BestWer(0.2, 3.0).update(0.2, 3.0)
