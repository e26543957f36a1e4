"""Asynchronous training: every tower updates the parameters on its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import tensorflow as tf

from deepspeech_training.config import ParallelConfig
from deepspeech_training.parallel import step
from deepspeech_training.parallel.accumulation import local_variable
from deepspeech_training.parallel.devices import CPU
from deepspeech_training.parallel.gradients import GradientsAndVariables, apply_gradients_if
from deepspeech_training.parallel.hybrid import HybridStrategy
from deepspeech_training.parallel.strategy import (
    Fetches,
    MakeOptimizer,
    NextBatch,
    StepOps,
    StepResult,
    Summarize,
    TowerFn,
    TowerOutput,
)
from deepspeech_training.parallel.sync import TurnOps, turn_ops
from deepspeech_training.parallel.threads import TowerThreads
from deepspeech_training.parallel.towers import get_tower_results
from deepspeech_training.parallel.update import Applied, build_update

STALENESS = 'staleness'
"""A measure of each update: how many others there were since the tower read the parameters for it."""


class AsyncStrategy(HybridStrategy):
    """A thread for each tower, which takes a batch, computes on the parameters as it finds them, and applies at once.

    No tower waits for another's gradients. Only the updates themselves are made one at a time, so that each is a
    whole one, which advances Adam's decay powers and the global step once. The order of the updates is left to the
    towers' speed. With several batches an update, each tower adds up its own. Evaluation uses all towers together.
    """

    name = 'async'

    def __init__(self, parallel: ParallelConfig, devices: Sequence[str] | None = None) -> None:
        super().__init__(parallel, devices)
        self._threads: TowerThreads | None = None
        self._fetches: Fetches | None = None  # asked for when no step was to begin any more in that epoch
        self._staleness: list[float] = []

    @property
    def batches_a_step(self) -> int:
        return 1

    @property
    def side_by_side(self) -> int:
        return self.towers

    def build(
        self,
        next_batch: NextBatch,
        tower_fn: TowerFn,
        make_optimizer: MakeOptimizer,
        watch: Mapping[str, tf.Tensor] | None = None,
        summarize: Summarize | None = None,
    ) -> TurnOps:
        with tf.device(CPU):
            optimizer = make_optimizer()
            mutex = tf.raw_ops.MutexV2(shared_name='update_mutex', name='update_mutex')
        step.get_or_create_global_step()  # the towers read it
        turns = [
            self._build_tower(tower, mutex, next_batch, tower_fn, optimizer, watch or {})
            for tower in range(self.towers)
        ]
        return turn_ops([step.with_summary(ops, summarize) for ops in turns])

    def _build_tower(
        self,
        tower: int,
        mutex: tf.Tensor,
        next_batch: NextBatch,
        tower_fn: TowerFn,
        optimizer: tf.compat.v1.train.Optimizer,
        watch: Mapping[str, tf.Tensor],
    ) -> StepOps:
        devices = [self._devices[tower]]
        reading = Reading(tower)
        outputs, compute_gradients = get_tower_results(
            next_batch, reading.before(tower_fn), optimizer, devices, first=tower
        )
        rule = self._rule()
        if rule.accumulate_steps == 1:
            rule = replace(rule, apply=partial(apply_alone, mutex, reading.step))
            return build_update(outputs, compute_gradients, devices, optimizer, rule, watch, first=tower)
        with tf.device(CPU):
            first_read = local_variable(f'accumulated/tower_{tower}/global_step', tf.TensorShape([]), tf.int64)
        rule = replace(rule, apply=partial(apply_alone, mutex, first_read.read_value()))
        ops = build_update(outputs, compute_gradients, devices, optimizer, rule, watch, first=tower)
        return _remember_first(first_read, reading.step, ops)

    def run_step(self, session: tf.compat.v1.Session, ops: StepOps, fetches: Fetches | None = None) -> StepResult:
        """Gives the updates of the towers' threads in the order in which they are finished.

        The first call of an epoch starts the threads; the end of the data, an error and `stop` end them. `fetches` are
        evaluated by the next step that begins, of this epoch or another: in its result they are `fetched`.
        """
        if not isinstance(ops, TurnOps):
            return super().run_step(session, ops, fetches)
        if self._threads is None:
            steps = [partial(step.run_step, session, itertools.repeat(turn)) for turn in ops.turns]
            self._threads, self._fetches = TowerThreads(steps, self._fetches), None
        try:
            result = self._threads.next_result(fetches)
        except tf.errors.OutOfRangeError:
            self._fetches, self._threads = self._threads.unused_fetches, None
            raise
        except Exception:
            self._threads = None
            raise
        if result.applied:
            self._staleness.append(result.measures[STALENESS])
        return result

    def probe(self, session: tf.compat.v1.Session, ops: StepOps) -> None:
        step.probe(session, ops.turns if isinstance(ops, TurnOps) else [ops])

    def paused(self) -> AbstractContextManager[Sequence[StepResult]]:
        return nullcontext(()) if self._threads is None else self._threads.paused()

    def stop(self) -> None:
        if self._threads is not None:
            self._threads.stop()
            self._threads = None

    def epoch_remark(self) -> str:
        staleness, self._staleness = self._staleness, []
        if not staleness:
            return ''
        return f'staleness {sum(staleness) / len(staleness):.1f} mean, {max(staleness):.0f} max'


class Reading:
    """What one tower reads before it computes: the global step, then each parameter once.

    A parameter that is used twice has the same value both times, though others update it meanwhile: an update writes
    to a new buffer when somebody still holds the old one.
    """

    step: tf.Tensor
    """Int64 scalar: the updates that were made before the tower read any parameter."""

    def __init__(self, tower: int) -> None:
        self._tower = tower
        self._values: dict[str, tf.Tensor] = {}

    def before(self, tower_fn: TowerFn) -> TowerFn:
        """`tower_fn` with its trainable variables read so, once it has its batch. To be called once."""

        def tower(batch: Any) -> TowerOutput:
            parts = [part for part in tf.nest.flatten(batch, expand_composites=True) if isinstance(part, tf.Tensor)]
            with (
                tf.device(CPU),
                tf.compat.v1.name_scope(f'staleness/tower_{self._tower}/'),
                tf.control_dependencies(parts),
            ):
                self.step = step.get_or_create_global_step().read_value()
            scope = tf.compat.v1.get_variable_scope()
            with tf.compat.v1.variable_scope(scope, custom_getter=self._read, auxiliary_name_scope=False):
                return tower_fn(batch)

        return tower

    def _read(self, getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A custom getter for variable scopes."""
        variable = getter(*args, **kwargs)
        if not getattr(variable, 'trainable', False):
            return variable
        if variable.name not in self._values:
            # Outside of a loop that the tower may be in: what is read there could be used in there only.
            with (
                tf.control_dependencies(None),
                tf.control_dependencies([self.step]),
                tf.device(CPU),
                tf.compat.v1.name_scope(f'tower_{self._tower}/{variable.op.name}/'),
            ):
                self._values[variable.name] = variable.read_value()
        return self._values[variable.name]


def apply_alone(
    mutex: tf.Tensor,
    read_step: tf.Tensor,
    usable: tf.Tensor,
    optimizer: tf.compat.v1.train.Optimizer,
    gradients: GradientsAndVariables,
    global_step: tf.Variable,
) -> Applied:
    """An update during which nobody else holds `mutex`, with its staleness: the updates since `read_step`.

    Adam reads its decay powers, multiplies and assigns them: two updates side by side could advance them once.
    The gradients are there before the mutex is taken. It is free again when its lock, a tensor, is gone, and that is
    also so when the step fails.
    """
    with tf.device(CPU), tf.compat.v1.name_scope('update_alone'):
        with tf.control_dependencies([usable, *(gradient for gradient, _ in gradients)]):
            lock = tf.raw_ops.MutexLock(mutex=mutex)
        with tf.control_dependencies([lock]):
            now = global_step.read_value()
        with tf.control_dependencies([now]):
            usable = tf.identity(usable)
        staleness = tf.cast(now - read_step, tf.float32)
    applied = apply_gradients_if(usable, optimizer, gradients, global_step)
    with tf.device(CPU), tf.control_dependencies([applied]):
        return Applied(tf.raw_ops.ConsumeMutexLock(mutex_lock=lock), {STALENESS: staleness})


def _remember_first(first_read: tf.Variable, read_step: tf.Tensor, ops: StepOps) -> StepOps:
    """Keeps the global step that the tower read for the first of an update's batches in `first_read`."""
    assert ops.accumulation is not None
    with tf.device(CPU), tf.compat.v1.name_scope('accumulation'):
        forget = first_read.assign(-1)
        known = first_read.read_value()
        remember = first_read.assign(tf.where(known < 0, read_step, known))
        reset = tf.group(ops.accumulation.reset, forget)
        add = tf.group(ops.accumulation.add, remember)
    return replace(ops, accumulation=replace(ops.accumulation, reset=reset, add=add))
