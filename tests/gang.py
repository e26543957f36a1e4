"""Ranks that are threads of one process: for what several ranks decide together, without starting a job."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from deepspeech_training.config import ParallelConfig
from deepspeech_training.errors import JobError
from deepspeech_training.parallel.hybrid import HybridStrategy
from deepspeech_training.parallel.strategy import Value

Result = TypeVar('Result')


class Gang:
    """What the ranks share."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.values: list[Any] = [None] * size
        self.barrier = threading.Barrier(size, timeout=60)


class Rank(HybridStrategy):
    """A strategy of which only what all ranks know is shared; its graphs are its own."""

    def __init__(self, gang: Gang, rank: int) -> None:
        super().__init__(ParallelConfig(cpu_towers=1))
        self._gang = gang
        self._rank = rank

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def world_size(self) -> int:
        return self._gang.size

    def all_gather(self, value: Value) -> list[Value]:
        """Raises `JobError` when another rank has ended."""
        try:
            self._gang.values[self._rank] = value
            self._gang.barrier.wait()
            values = list(self._gang.values)
            self._gang.barrier.wait()
        except threading.BrokenBarrierError:
            raise JobError('another rank ended') from None
        return values


def run_ranks(size: int, work: Callable[[Rank], Result]) -> list[Result | Exception]:
    """What `work` returns, or raises, in each rank."""
    gang = Gang(size)

    def run(rank: int) -> Result | Exception:
        try:
            return work(Rank(gang, rank))
        except Exception as error:
            gang.barrier.abort()
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(run, range(size)))
