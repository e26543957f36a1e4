"""The strategies by name."""

from __future__ import annotations

import tensorflow as tf

from deepspeech_training.config import ParallelConfig
from deepspeech_training.errors import FlagError
from deepspeech_training.parallel.asynchronous import AsyncStrategy
from deepspeech_training.parallel.hybrid import HybridStrategy
from deepspeech_training.parallel.strategy import Strategy
from deepspeech_training.parallel.sync import SyncStrategy

STRATEGIES = {strategy.name: strategy for strategy in (HybridStrategy, SyncStrategy, AsyncStrategy)}


def create_strategy(parallel: ParallelConfig) -> Strategy:
    """The strategy that `parallel` names.

    Raises `FlagError` for an unknown name, and, with those of Horovod itself, where that is missing.
    """
    if parallel.horovod:
        return _create_horovod(parallel)
    if parallel.parallel not in STRATEGIES:
        known = ', '.join(sorted(STRATEGIES))
        raise FlagError(f'--parallel {parallel.parallel!r}: no such way to run in parallel; known: {known}')
    return STRATEGIES[parallel.parallel](parallel)


def _create_horovod(parallel: ParallelConfig) -> Strategy:
    try:
        from deepspeech_training.parallel.horovod import HorovodStrategy
    except (ImportError, OSError, tf.errors.OpError) as error:
        reason = str(error).splitlines()[0]
        raise FlagError(
            f'--horovod: Horovod cannot be loaded ({reason}): bin/install_horovod.sh builds it for the TensorFlow here'
        ) from error
    return HorovodStrategy(parallel)
