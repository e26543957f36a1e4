"""Hybrid parallel training: one tower a device, all in step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from deepspeech_training.config import ParallelConfig
from deepspeech_training.parallel import step
from deepspeech_training.parallel.devices import CPU, check_devices, configure_devices, tower_devices
from deepspeech_training.parallel.gradients import apply_gradients_if, average_gradients, global_norm
from deepspeech_training.parallel.strategy import MakeOptimizer, NextBatch, StepOps, StepResult, Strategy, TowerFn
from deepspeech_training.parallel.towers import build_towers, get_tower_results


class HybridStrategy(Strategy):
    """Every tower computes the gradients of its own mini-batch from the same parameters, which are on the CPU.

    `average_gradients` waits for all of them, and one `apply_gradients` follows. The update equals that of
    one device with the concatenated batch, whatever the sizes of the towers' batches.
    """

    name = 'hybrid'

    def __init__(self, parallel: ParallelConfig, devices: Sequence[str] | None = None) -> None:
        """`devices`, one a tower, are chosen by `tower_devices` when not given. Raises `FlagError`."""
        self._parallel = parallel
        self._devices = tower_devices(parallel) if devices is None else list(devices)

    @property
    def towers(self) -> int:
        return len(self._devices)

    @property
    def devices(self) -> tuple[str, ...]:
        """The device of each tower."""
        return tuple(self._devices)

    def configure_session(self, proto: tf.compat.v1.ConfigProto) -> None:
        configure_devices(proto, self._parallel)

    def build(self, next_batch: NextBatch, tower_fn: TowerFn, make_optimizer: MakeOptimizer) -> StepOps:
        with tf.device(CPU):
            global_step = get_or_create_global_step()
            optimizer = make_optimizer()
        outputs, tower_gradients = get_tower_results(next_batch, tower_fn, optimizer, self._devices)
        gradients = average_gradients(tower_gradients)
        norm = global_norm(gradients)
        ops = step.combine_outputs(outputs)
        with tf.device(CPU), tf.compat.v1.name_scope('step'):
            usable = tf.equal(tf.size(ops.bad_names), 0) & tf.greater(ops.count, 0.0) & tf.math.is_finite(norm)
        train_op = apply_gradients_if(usable, optimizer, gradients, global_step)
        return replace(ops, train_op=train_op, applied=usable, gradients=gradients, gradient_norm=norm)

    def build_evaluation(self, next_batch: NextBatch, tower_fn: TowerFn) -> StepOps:
        with tf.compat.v1.name_scope('evaluation'):
            outputs, _ = build_towers(next_batch, tower_fn, self._devices)
            return step.combine_outputs(outputs)

    def after_restore(self, session: tf.compat.v1.Session) -> None:
        """Raises `FlagError` when `session` lacks a tower's device."""
        check_devices(session, self._devices)

    def run_step(self, session: tf.compat.v1.Session, ops: StepOps, fetches: Any = None) -> StepResult:
        return step.run_step(session, ops, fetches)


def get_or_create_global_step() -> tf.Variable:
    """The graph's `global_step` (int64), which counts the updates; a resource variable where it is new."""
    with tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), use_resource=True, auxiliary_name_scope=False):
        return tf.compat.v1.train.get_or_create_global_step()
