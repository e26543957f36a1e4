"""When a model is the best so far, when to lower the learning rate, when to stop.

Pure state machines over numbers: no TensorFlow, so that every rank of a job can run its own copy
and comes to the same decisions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from deepspeech_training.config import ScheduleConfig


@dataclass(frozen=True)
class Decision:
    """What follows from an epoch's dev loss."""

    is_best: bool  # keep this model as the best one
    reduce_learning_rate: bool  # go back to the best model, with a lower learning rate
    stop: bool  # end training early


@dataclass
class DevLossMonitor:
    """Watches the dev loss from epoch to epoch, as DeepSpeech 0.9 does.

    An epoch improves when its loss is lower than the best one by more than `es_min_delta`; the best
    model is kept whenever the loss is lower at all. A loss that is not finite is never an improvement.
    """

    schedule: ScheduleConfig
    best_loss: float = math.inf
    epochs_without_improvement: int = 0

    @property
    def has_waited_enough(self) -> bool:
        """Whether an early stop is due."""
        return self.schedule.early_stop and self.epochs_without_improvement >= self.schedule.es_epochs

    def update(self, dev_loss: float) -> Decision:
        """Takes the dev loss of the epoch that just ended."""
        is_best = dev_loss < self.best_loss
        if dev_loss < self.best_loss - self.schedule.es_min_delta:
            self.epochs_without_improvement = 0
        else:
            self.epochs_without_improvement += 1
        if is_best:
            self.best_loss = dev_loss
        waited = self.epochs_without_improvement
        return Decision(
            is_best=is_best,
            reduce_learning_rate=(
                self.schedule.reduce_lr_on_plateau and waited > 0 and waited % self.schedule.plateau_epochs == 0
            ),
            stop=self.has_waited_enough,
        )


@dataclass
class BestWer:
    """The lowest word error rate on the dev sets so far; of equal ones the one with the lowest loss counts."""

    wer: float = math.inf
    loss: float = math.inf

    def update(self, wer: float, loss: float) -> bool:
        """Takes an epoch's; whether it is the best. Never one that was not computed (NaN), or without a finite loss."""
        if not (math.isfinite(loss) and (wer, loss) < (self.wer, self.loss)):
            return False
        self.wer, self.loss = wer, loss
        return True


@dataclass
class BadStepCounter:
    """Counts steps that were skipped because a loss or a gradient was not finite."""

    max_in_a_row: int
    in_a_row: int = 0
    total: int = 0

    def update(self, applied: bool) -> bool:
        """Takes whether a step changed the parameters; True when there were too many bad ones in a row."""
        if applied:
            self.in_a_row = 0
            return False
        self.in_a_row += 1
        self.total += 1
        return self.in_a_row >= self.max_in_a_row
