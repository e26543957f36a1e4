"""What the passes over data sets add up to."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from deepspeech_training.parallel.strategy import StepResult


@dataclass(frozen=True)
class SampleRange:
    """The positions of one data set in the pipeline's list of samples."""

    name: str
    start: int
    count: int

    def order(self) -> np.ndarray:
        return np.arange(self.start, self.start + self.count, dtype=np.int32)


@dataclass
class EpochTotals:
    """What one pass over a data set added up to."""

    loss_sum: float = 0.0
    count: float = 0
    bad_names: list[str] = field(default_factory=list)
    totals: dict[str, float] = field(default_factory=dict)
    steps: int = 0
    overflows: int = 0
    started: float = field(default_factory=time.monotonic)

    def add(self, result: StepResult) -> None:
        self.loss_sum += result.loss_sum
        self.count += result.count
        self.bad_names += result.bad_names
        self.steps += 1
        self.overflows += int(result.overflowed)
        for name, value in result.totals.items():
            self.totals[name] = self.totals.get(name, 0.0) + value

    @property
    def loss(self) -> float:
        return self.loss_sum / self.count if self.count else math.nan

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started
