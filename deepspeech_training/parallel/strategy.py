"""The interface of every way to run in parallel.

A strategy receives functions that take a batch, build one tower and make an optimizer, and answers
with the operations of one step. It knows neither model nor data; the training loop knows no strategy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import tensorflow as tf

Row = TypeVar('Row')


@dataclass(frozen=True)
class TowerOutput:
    """What a tower computes from one batch.

    `loss_sum`: float32 scalar, the sum of the per-sample losses that are finite and have weight 1.
    `count`: float32 scalar, how many samples that sum has.
    `bad_names`: string [k], the samples whose loss is not finite.
    `totals`: further float32 scalars, added up over the towers (audio seconds, waiting time).
    `per_sample`: tensors that evaluation wants from each tower (logits, losses, indices).
    `samples`: float32 scalar, how many samples of weight 1 the batch has, computed from the batch alone:
    then no tower waits for another's loss before its backward pass. None: `count` is used.
    """

    loss_sum: tf.Tensor
    count: tf.Tensor
    bad_names: tf.Tensor
    totals: Mapping[str, tf.Tensor] = field(default_factory=dict)
    per_sample: Mapping[str, tf.Tensor] = field(default_factory=dict)
    samples: tf.Tensor | None = None


NextBatch = Callable[[], Any]
TowerFn = Callable[[Any], TowerOutput]
MakeOptimizer = Callable[[], tf.compat.v1.train.Optimizer]


@dataclass(frozen=True)
class StepOps:
    """The operations of one step; `train_op` and `gradients` are None in an evaluation graph.

    `loss`: mean over the samples of all towers, 0 when there are none.
    `gradients`: pairs of averaged gradient and variable.
    `gradient_norm`: global norm of the averaged gradients; not finite means that nothing was applied.
    `train_op`: applies the averaged gradients unless a loss or the norm is not finite.
    `per_tower`: `TowerOutput.per_sample` of each tower, in order.
    """

    loss_sum: tf.Tensor
    count: tf.Tensor
    loss: tf.Tensor
    bad_names: tf.Tensor
    totals: Mapping[str, tf.Tensor]
    per_tower: Sequence[Mapping[str, tf.Tensor]]
    train_op: tf.Operation | None = None
    applied: tf.Tensor | None = None  # bool scalar: whether this step changed the parameters
    gradients: Sequence[tuple[tf.Tensor, tf.Variable]] = ()
    gradient_norm: tf.Tensor | None = None


@dataclass(frozen=True)
class StepResult:
    """What one step gave, as Python and NumPy values."""

    loss_sum: float
    count: int
    bad_names: list[str]
    totals: dict[str, float]
    applied: bool = True
    gradient_norm: float = 0.0
    per_tower: list[dict[str, Any]] = field(default_factory=list)
    fetched: Any = None


class Strategy(ABC):
    """One way to run in parallel. See `doc/parallel-optimization.md`."""

    name: str

    @property
    def rank(self) -> int:
        """This process's number, from 0."""
        return 0

    @property
    def world_size(self) -> int:
        """How many processes train together."""
        return 1

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints, summaries and reports."""
        return self.rank == 0

    @property
    @abstractmethod
    def towers(self) -> int:
        """How many towers this process has."""

    @abstractmethod
    def configure_session(self, proto: tf.compat.v1.ConfigProto) -> None:
        """Sets device visibility and virtual devices on `proto`."""

    def shard(self, rows: Sequence[Row]) -> Sequence[Row]:
        """This process's part of `rows`: the same number of steps everywhere, no row lost or used twice."""
        return rows

    @abstractmethod
    def build(self, next_batch: NextBatch, tower_fn: TowerFn, make_optimizer: MakeOptimizer) -> StepOps:
        """Builds the training step.

        `next_batch` is called once for every tower and returns that tower's batch, whatever `tower_fn`
        takes; the order of the towers is the order in which batches are handed out.
        """

    @abstractmethod
    def build_evaluation(self, next_batch: NextBatch, tower_fn: TowerFn) -> StepOps:
        """Builds a forward step over all towers, without optimizer, sharing the variables of `build`."""

    @abstractmethod
    def after_restore(self, session: tf.compat.v1.Session) -> None:
        """Called once for every session, when the variables have their values.

        Makes all processes start from the same values; raises `FlagError` when the session lacks a tower's device.
        """

    @abstractmethod
    def run_step(self, session: tf.compat.v1.Session, ops: StepOps, fetches: Any = None) -> StepResult:
        """Runs one step; `fetches` are evaluated in the same step and returned as `fetched`.

        Raises `tf.errors.OutOfRangeError` at the end of the data.
        """

    def all_mean(self, total: float, count: float) -> float:
        """The mean over all processes of values that sum to `total` here; NaN when there are none."""
        return total / count if count else float('nan')
