"""The strategies under contract. A new strategy adds its cases to `STRATEGIES`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import tensorflow as tf

from deepspeech_training.config import ParallelConfig
from deepspeech_training.parallel.registry import create_strategy
from deepspeech_training.parallel.strategy import Strategy


@dataclass(frozen=True)
class Case:
    """One strategy; an update of it must equal that of one device with `batches_per_update` batches in one."""

    name: str
    create: Callable[[], Strategy]
    batches_per_update: int


def hybrid(towers: int) -> Case:
    parallel = ParallelConfig(parallel='hybrid', cpu_towers=towers)
    return Case(f'hybrid-{towers}', lambda: create_strategy(parallel), towers)


STRATEGIES = [hybrid(1), hybrid(2), hybrid(3)]


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
