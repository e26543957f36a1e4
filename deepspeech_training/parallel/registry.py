"""The strategies by name."""

from __future__ import annotations

from deepspeech_training.config import ParallelConfig
from deepspeech_training.errors import FlagError
from deepspeech_training.parallel.asynchronous import AsyncStrategy
from deepspeech_training.parallel.hybrid import HybridStrategy
from deepspeech_training.parallel.strategy import Strategy
from deepspeech_training.parallel.sync import SyncStrategy

STRATEGIES = {strategy.name: strategy for strategy in (HybridStrategy, SyncStrategy, AsyncStrategy)}


def create_strategy(parallel: ParallelConfig) -> Strategy:
    """The strategy that `parallel.parallel` names. Raises `FlagError` for another name."""
    if parallel.parallel not in STRATEGIES:
        known = ', '.join(sorted(STRATEGIES))
        raise FlagError(f'--parallel {parallel.parallel!r}: no such way to run in parallel; known: {known}')
    return STRATEGIES[parallel.parallel](parallel)
