from __future__ import annotations

import numpy as np
import pytest

from deepspeech_training.config import ParallelConfig
from deepspeech_training.errors import FlagError
from deepspeech_training.parallel.registry import create_strategy


def test_hybrid_is_the_default() -> None:
    strategy = create_strategy(ParallelConfig(cpu_towers=2))
    assert (strategy.name, strategy.towers, strategy.rank, strategy.world_size) == ('hybrid', 2, 0, 1)
    assert strategy.is_chief
    shard = strategy.shard(np.array([4, 0, 2], np.int32), np.array([1, 1, 1]), training=True)
    assert (shard.rows.tolist(), shard.batches, shard.fillers, shard.steps) == ([4, 0, 2], 3, 1, 2)
    assert strategy.all_mean(6.0, 3) == 2.0


def test_unknown_strategy() -> None:
    with pytest.raises(FlagError, match=r"--parallel 'hybird'.*known: async, hybrid, sync"):
        create_strategy(ParallelConfig(parallel='hybird'))
