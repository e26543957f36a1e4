"""What is measured, and how."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar('Item')

STAGE_SAMPLES = 300
"""At most so many utterances are timed stage by stage, evenly taken from all."""

Runs = list[float]
"""Seconds of each repeat, of the CPU where nothing else is said."""

HEADER = f'{"":<30}{"ms/utterance":>14}{"utterances/s":>16}{"audio seconds/s":>18}'


@dataclass(frozen=True)
class Stage:
    """What one stage took for one utterance."""

    name: str
    seconds: float  # an utterance, of one core or by the clock
    audio_seconds: float  # of an utterance, on average

    def row(self) -> str:
        """A line below `HEADER`."""
        if self.seconds <= 0:
            return f'{self.name:<30}{0:>14.3f}{"-":>16}{"-":>18}'
        utterances = 1 / self.seconds
        return (
            f'{self.name:<30}{1e3 * self.seconds:>14.3f}{utterances:>16,.0f}{utterances * self.audio_seconds:>18,.0f}'
        )


def evenly(items: Sequence[Item], limit: int) -> list[Item]:
    """At most `limit` of `items`, taken from all of them."""
    count = min(limit, len(items))
    return [items[number * len(items) // count] for number in range(count)]


def timed(function: Callable[[], object], repeats: int) -> Runs:
    """CPU time of `function`, after a run that is not counted."""
    function()
    runs = []
    for _ in range(repeats):
        begin = time.process_time()
        function()
        runs.append(time.process_time() - begin)
    return runs
