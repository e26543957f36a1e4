"""What the passes over data sets are, what their steps add up to, and how fast they are."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from deepspeech_training.data.turns import Turns
from deepspeech_training.parallel.strategy import StepResult


@dataclass(frozen=True)
class SampleRange:
    """The positions of one data set in the pipeline's list of samples."""

    name: str
    start: int
    count: int
    turns: Turns | None = None  # of training samples

    def order(self) -> np.ndarray:
        return np.arange(self.start, self.start + self.count, dtype=np.int32)


@dataclass(frozen=True)
class Ranges:
    """The data sets that an epoch goes through."""

    train: SampleRange
    dev: Sequence[SampleRange]
    metrics: Sequence[SampleRange]


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


class Pace:
    """What the last steps did in a second: as many steps as are under way side by side.

    Those end at any time, two at once perhaps: the time between one result and the next would say nothing.
    """

    def __init__(self, side_by_side: int) -> None:
        self._times = deque([time.monotonic()], maxlen=side_by_side)
        self._steps: deque[tuple[int, float, float]] = deque(maxlen=side_by_side)

    def add(self, result: StepResult) -> dict[str, float]:
        """The rates, and the share of the time for which the input had no batch ready, with this step as the last."""
        now = time.monotonic()
        seconds = max(now - self._times[0], 1e-9)
        self._times.append(now)
        self._steps.append((result.count, result.totals['audio_seconds'], result.totals['wait_seconds']))
        counts, audio, waits = (math.fsum(values) for values in zip(*self._steps, strict=True))
        return {
            'examples_per_second': counts / seconds,
            'audio_seconds_per_second': audio / seconds,
            'input_wait_share': min(1.0, waits / seconds),
        }
