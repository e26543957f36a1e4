"""The strategies under contract. A new strategy adds its cases to `STRATEGIES`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import tensorflow as tf

from deepspeech_training.config import ParallelConfig
from deepspeech_training.launch import find_launch
from deepspeech_training.parallel.registry import create_strategy
from deepspeech_training.parallel.strategy import Strategy


@dataclass(frozen=True)
class Case:
    """One strategy; an update of it must equal that of one device with `batches_per_update` batches in one."""

    parallel: ParallelConfig
    batches_per_update: int

    @property
    def name(self) -> str:
        sharded = '-sharded' if self.parallel.optimizer_sharding else ''
        if self.parallel.horovod:
            return f'horovod-{find_launch().size}x{self.parallel.cpu_towers}{sharded}'
        return f'{self.parallel.parallel}-{self.parallel.cpu_towers}{sharded}'

    def create(self, *, accumulate_steps: int = 1, grad_clip_norm: float = 0.0) -> Strategy:
        """A new strategy."""
        parallel = replace(self.parallel, accumulate_steps=accumulate_steps, grad_clip_norm=grad_clip_norm)
        return create_strategy(parallel)


def hybrid(towers: int) -> Case:
    return Case(ParallelConfig(parallel='hybrid', cpu_towers=towers), towers)


def sync(towers: int) -> Case:
    return Case(ParallelConfig(parallel='sync', cpu_towers=towers), 1)


def asynchronous(towers: int) -> Case:
    """Of several towers it is left to their speed what an update is computed from; `test_async.py` has those."""
    return Case(ParallelConfig(parallel='async', cpu_towers=towers), 1)


def horovod(towers: int) -> Case:
    """`towers` in each of the processes, which `horovodrun` has started to run the same tests side by side."""
    return Case(ParallelConfig(horovod=True, cpu_towers=towers), find_launch().size * towers)


def sharded(case: Case) -> Case:
    """With Adam's moments spread over the towers' devices, or over the processes."""
    return replace(case, parallel=replace(case.parallel, optimizer_sharding=True))


ALONE = [hybrid(1), hybrid(2), hybrid(3), sync(1), sync(3), asynchronous(1), sharded(hybrid(2)), sharded(sync(2))]
TOGETHER = [horovod(1), horovod(2), sharded(horovod(1))]
STRATEGIES = TOGETHER if find_launch().of_several else ALONE


@pytest.fixture(autouse=True)
def graph_mode() -> None:
    tf.compat.v1.disable_v2_behavior()


@pytest.fixture(params=STRATEGIES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    """Each strategy in turn."""
    assert isinstance(request.param, Case)
    return request.param


@pytest.fixture
def one_device() -> Case:
    """What the others are compared with."""
    return hybrid(1)
