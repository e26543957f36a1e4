"""A graph with a training and an evaluation step of any model, and a session in which they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from deepspeech_training.checkpoints import GraphVariables, belongs_to
from deepspeech_training.model.variables import freezing
from deepspeech_training.parallel.sharded_adam import moments_at_rest
from deepspeech_training.parallel.strategy import Fetches, StepOps, StepResult, Strategy, TowerFn, TowerOutput

AnyJob = TypeVar('AnyJob', bound='Job')
MakeOptimizer = Callable[[], tf.compat.v1.train.Optimizer]
MakeBatches = Callable[[int], tf.data.Dataset]
"""From the number of batches a step to a data set of batches, filled up for the last step."""


class Job:
    """One strategy at work. A context manager.

    Where several processes work together, each runs the same test; results are those of all of them together.
    """

    def __init__(
        self,
        strategy: Strategy,
        make_batches: MakeBatches,
        tower_fn: TowerFn,
        make_optimizer: MakeOptimizer,
        *,
        evaluation: bool = False,
        seed: int = 1,
        frozen: Sequence[str] = (),
    ) -> None:
        """`evaluation`: whether there is an evaluation step too; else `self.evaluation` is the training step.

        `frozen`: layers that are not trained, by the first part of their variables' names.
        """
        self.strategy = strategy
        self.graph = tf.Graph()
        with self.graph.as_default():
            tf.compat.v1.set_random_seed(seed)
            self._iterator = tf.compat.v1.data.make_initializable_iterator(
                self._dealt(make_batches, strategy.batches_a_step)
            )
            frozen_fn = _with_frozen(frozen, tower_fn)
            self.training = strategy.build(self._iterator.get_next, frozen_fn, make_optimizer)
            moments_at_rest([v for v in tf.compat.v1.global_variables() if belongs_to(frozen, v.op.name)])
            self._initializers = [self._iterator.initializer]
            self.trained_variables = [variable.name for variable in tf.compat.v1.global_variables()]
            self.evaluation = self.training
            if evaluation:
                evaluated = tf.compat.v1.data.make_initializable_iterator(self._dealt(make_batches, strategy.towers))
                self.evaluation = strategy.build_evaluation(evaluated.get_next, tower_fn)
                self._initializers.append(evaluated.initializer)
            self.variables = {variable.name: variable for variable in tf.compat.v1.global_variables()}
            proto = tf.compat.v1.ConfigProto(operation_timeout_in_ms=60_000)  # no step of a test may hang
            strategy.configure_session(proto)
            self.session = tf.compat.v1.Session(config=proto)
            self._values = GraphVariables(strategy.sharded_slots)
        self.initialize()
        strategy.after_restore(self.session)
        self.graph.finalize()
        self.start()

    def _dealt(self, make_batches: MakeBatches, own: int) -> tf.data.Dataset:
        """This process's batches: `own` of those of each step."""
        rank, ranks = self.strategy.rank, self.strategy.world_size
        batches = make_batches(ranks * own)
        if ranks == 1:
            return batches
        numbered = batches.enumerate().filter(lambda number, _: tf.equal(number // own % ranks, rank))
        return numbered.map(lambda _, batch: batch)

    def __enter__(self: AnyJob) -> AnyJob:
        return self

    def __exit__(self, *_: object) -> None:
        self.strategy.stop()
        self.session.close()

    def initialize(self) -> None:
        """Gives all variables their first values."""
        self._values.initialize(self.session)

    def load(self, values: dict[str, np.ndarray]) -> None:
        """Gives the variables the values that `state` gave, perhaps in another job."""
        self._values.write(self.session, {name.partition(':')[0]: value for name, value in values.items()})
        self.strategy.after_restore(self.session)

    def start(self, feed: dict[tf.Tensor, Any] | None = None) -> None:
        """Begins an epoch."""
        self.session.run(self._initializers, feed)

    def step(self, ops: StepOps | None = None, fetches: Fetches | None = None) -> StepResult:
        """A training step, or that of `ops`."""
        return _of_all_ranks(self.strategy, self.strategy.run_step(self.session, ops or self.training, fetches))

    def rest_of_epoch(self, ops: StepOps | None = None) -> list[StepResult]:
        """The steps until the end of the data."""
        results = []
        try:
            while True:
                results.append(self.step(ops))
        except tf.errors.OutOfRangeError:
            return results

    def state(self) -> dict[str, np.ndarray]:
        """The values of all variables, which are the same to the last bit in all processes."""
        values = {f'{name}:0': value for name, value in self._values.read(self.session).items()}
        for others in self.strategy.all_gather(values):
            assert {name: value.tobytes() for name, value in others.items()} == {
                name: value.tobytes() for name, value in values.items()
            }
        return values


def _with_frozen(frozen: Sequence[str], tower_fn: TowerFn) -> TowerFn:
    def tower(batch: Any) -> TowerOutput:
        with freezing(partial(belongs_to, frozen)):
            return tower_fn(batch)

    return tower


def _of_all_ranks(strategy: Strategy, result: StepResult) -> StepResult:
    """Sums, and the towers in the order in which they took their batches; the update was the same for all."""
    results = strategy.all_gather(result)
    assert {other.applied for other in results} == {result.applied}
    assert {repr(other.gradient_norm) for other in results} == {repr(result.gradient_norm)}
    assert {(repr(other.job_loss_sum), other.job_count) for other in results} == {
        (repr(result.job_loss_sum), result.job_count)
    }
    batches = range(0, len(result.per_tower), strategy.towers)
    return replace(
        result,
        loss_sum=sum(other.loss_sum for other in results),
        count=sum(other.count for other in results),
        bad_names=[name for other in results for name in other.bad_names],
        totals={key: sum(other.totals[key] for other in results) for key in result.totals},
        per_tower=[
            tower
            for first in batches
            for other in results
            for tower in other.per_tower[first : first + strategy.towers]
        ],
    )
