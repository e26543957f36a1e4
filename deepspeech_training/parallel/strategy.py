"""The interface of every way to run in parallel.

A strategy receives functions that take a batch, build one tower and make an optimizer, and answers
with the operations of one step. It knows neither model nor data; the training loop knows no strategy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from deepspeech_training.workers import cores

Value = TypeVar('Value')


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
    `needs_loss_scale`: whether derivatives are computed in a type in which small ones are zero.
    """

    loss_sum: tf.Tensor
    count: tf.Tensor
    bad_names: tf.Tensor
    totals: Mapping[str, tf.Tensor] = field(default_factory=dict)
    per_sample: Mapping[str, tf.Tensor] = field(default_factory=dict)
    samples: tf.Tensor | None = None
    needs_loss_scale: bool = False


NextBatch = Callable[[], Any]
TowerFn = Callable[[Any], TowerOutput]
MakeOptimizer = Callable[[], tf.compat.v1.train.Optimizer]


@dataclass(frozen=True)
class Accumulation:
    """How the gradients of several batches are added up before one update.

    `reset`: makes the sums 0. `add`: adds the gradients of the next batch of every tower.
    `count`, `bad` and `loss_sum`: float32 scalars to feed to `train_op`, the samples in the sums, those among them
    whose loss was not finite, and the sum of the losses. `steps`: batches of every tower an update.
    """

    reset: tf.Operation
    add: tf.Operation
    count: tf.Tensor
    bad: tf.Tensor
    loss_sum: tf.Tensor
    steps: int


@dataclass(frozen=True)
class StepOps:
    """The operations of one step; `train_op` and `gradients` are None in an evaluation graph.

    `loss`: mean over the samples of all towers of this process, 0 when there are none.
    `gradients`: pairs of averaged gradient and variable, before they are clipped.
    `gradient_norm`: global norm of the averaged gradients; not finite means that nothing was applied.
    `train_op`: applies the averaged gradients unless a loss or the norm is not finite.
    `per_tower`: `TowerOutput.per_sample` of each tower, in order.
    `measures`: float scalars that are shown for each update (the learning rate, staleness).
    `timing`: float scalars in seconds that are taken with each batch and added up over those of an update.
    `accumulation`: not None where an update takes several batches.
    `summary`: string scalar, what `summarize` made of this step.
    `overflowed`: bool scalar, whether nothing was applied only because the loss scale was too large; None without one.
    `job_sums`: float32 `[2]`, loss sum and count of the update over all processes; None in an evaluation graph.
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
    measures: Mapping[str, tf.Tensor] = field(default_factory=dict)
    timing: Mapping[str, tf.Tensor] = field(default_factory=dict)
    accumulation: Accumulation | None = None
    summary: tf.Tensor | None = None
    overflowed: tf.Tensor | None = None
    job_sums: tf.Tensor | None = None


Fetches = Callable[[StepOps], Any]
"""From the operations of the step that is run to further tensors to evaluate with it, in any nested structure."""

Summarize = Callable[[StepOps], tf.Tensor]


@dataclass(frozen=True)
class StepResult:
    """What one step gave, as Python and NumPy values; losses, counts and names are those of this process.

    `job_loss_sum` and `job_count` are those of all processes, and the same in each; 0 in evaluation.
    """

    loss_sum: float
    count: int
    bad_names: list[str]
    totals: dict[str, float]
    applied: bool = True
    gradient_norm: float = 0.0
    per_tower: list[dict[str, Any]] = field(default_factory=list)
    batches: int = 1  # how often every tower took a batch
    measures: dict[str, float] = field(default_factory=dict)
    fetched: Any = None
    overflowed: bool = False
    job_loss_sum: float = 0.0
    job_count: int = 0


@dataclass(frozen=True)
class Shard:
    """This process's part of an epoch.

    `rows`: int32 `[count]`, in the order given. `sizes`: int64 `[batches]`, how many of them each batch has.
    `fillers`: batches that count for nothing to follow, so that every tower has one in each step. `steps`: how often
    all towers take a batch. `numbers`: int64 `[batches + fillers]`, the place of each batch among those of all
    processes.
    """

    rows: npt.NDArray[np.int32]
    sizes: npt.NDArray[np.int64]
    fillers: int
    steps: int
    numbers: npt.NDArray[np.int64]

    @property
    def batches(self) -> int:
        return len(self.sizes)


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
    def cores(self) -> int:
        """This process's share of the cores of its host."""
        return cores()

    @property
    def is_chief(self) -> bool:
        """Whether this process writes summaries and reports, and shows progress."""
        return self.rank == 0

    @property
    def writes_checkpoints(self) -> bool:
        """Whether this process writes checkpoints."""
        return self.is_chief

    @property
    def learning_rate_scale(self) -> float:
        """What the learning rate is multiplied by, for the number of processes."""
        return 1.0

    @property
    def adam(self) -> Callable[..., tf.compat.v1.train.Optimizer]:
        """What makes the optimizer, from `learning_rate`, `beta1`, `beta2` and `epsilon`."""
        return tf.compat.v1.train.AdamOptimizer

    @property
    def sharded_slots(self) -> Any:
        """The optimizer's moments where no process has all of them (`flat_adam.FlatSlots`), else None."""
        return None

    @property
    @abstractmethod
    def towers(self) -> int:
        """How many towers this process has."""

    @property
    def batches_a_step(self) -> int:
        """How many batches a training step takes; one of evaluation takes one for each tower."""
        return self.towers

    @property
    def batches_together(self) -> int:
        """The same over all processes."""
        return self.batches_a_step * self.world_size

    @property
    def side_by_side(self) -> int:
        """How many training steps are under way at the same time."""
        return 1

    @abstractmethod
    def configure_session(self, proto: tf.compat.v1.ConfigProto) -> None:
        """Sets device visibility and virtual devices on `proto`."""

    def shard(self, rows: npt.NDArray[np.int32], sizes: npt.NDArray[np.int64], *, training: bool) -> Shard:
        """This process's part of an epoch's `rows`, which are batches of `sizes` (int64 `[batches]`) one after another.

        The same number of steps everywhere, no row lost or used twice.
        """
        together = self.batches_a_step if training else self.towers
        steps = -(-len(sizes) // together)
        return Shard(rows, sizes, steps * together - len(sizes), steps, np.arange(steps * together))

    @abstractmethod
    def build(
        self,
        next_batch: NextBatch,
        tower_fn: TowerFn,
        make_optimizer: MakeOptimizer,
        watch: Mapping[str, tf.Tensor] | None = None,
        summarize: Summarize | None = None,
    ) -> StepOps:
        """Builds the training step.

        `next_batch` is called once for every tower and returns that tower's batch, whatever `tower_fn`
        takes; the order of the towers is the order in which batches are handed out.
        `watch`: float scalars to be shown with each update, as `StepResult.measures`.
        `summarize`: builds `StepOps.summary`.
        """

    @abstractmethod
    def build_evaluation(self, next_batch: NextBatch, tower_fn: TowerFn) -> StepOps:
        """Builds a forward step over all towers, without optimizer, sharing the variables of `build`."""

    @property
    def is_source(self) -> bool:
        """Whether this process restores checkpoints, and the others get their values from it."""
        return True

    def choose_source(self, look: Callable[[], tuple[int, int]]) -> None:  # noqa: B027 - one process has no choice
        """Decides which process is the source; `look` tells how good the checkpoint found here is: greater is better.

        It is called only where a checkpoint found here could be used.
        """

    @abstractmethod
    def after_restore(self, session: tf.compat.v1.Session) -> None:
        """Called for every session when the source's variables have their values, and whenever it restores again.

        Makes all processes start from the same values; raises `FlagError` when the session lacks a tower's device.
        The first call for a graph may add operations to it.
        """

    @abstractmethod
    def run_step(self, session: tf.compat.v1.Session, ops: StepOps, fetches: Fetches | None = None) -> StepResult:
        """Runs one step; what `fetches` gives is evaluated in the same step and returned as `fetched`.

        With accumulated gradients `fetches` is evaluated with the update, and must not take a batch.
        Raises `tf.errors.OutOfRangeError` at the end of the data.
        """

    @abstractmethod
    def probe(self, session: tf.compat.v1.Session, ops: StepOps) -> None:
        """Forward and backward passes with a batch for every tower, as many at once as in training, and no update.

        Raises `tf.errors.ResourceExhaustedError` where they do not fit into memory.
        """

    def paused(self) -> AbstractContextManager[Sequence[StepResult]]:
        """Within it no variable changes: no step is under way.

        Gives the steps that have changed the variables, but were not returned by `run_step` yet.
        """
        return nullcontext(())

    def stop(self) -> None:  # noqa: B027 - most strategies have nothing under way between steps
        """Ends what is still under way, before the session is closed."""

    def epoch_remark(self) -> str:
        """What this strategy has to say about the steps since the last call, for the epoch's line; often ''."""
        return ''

    def all_sum(self, values: Sequence[float]) -> list[float]:
        """The sums of `values` over all processes."""
        return list(values)

    def all_mean(self, total: float, count: float) -> float:
        """The mean over all processes of values that sum to `total` here; NaN when there are none."""
        total, count = self.all_sum([total, count])
        return total / count if count else float('nan')

    def any(self, flags: Sequence[bool]) -> list[bool]:
        """For each flag, whether it is set in one of the processes."""
        return [total > 0 for total in self.all_sum([float(flag) for flag in flags])]

    def all_gather(self, value: Value) -> list[Value]:
        """`value` of each process, by rank."""
        return [value]

    def agree(self, value: Value) -> Value:
        """The `value` of the process that is the source."""
        return value
