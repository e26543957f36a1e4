"""Hybrid parallel training: one tower a device, all in step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import tensorflow as tf

from deepspeech_training.config import ParallelConfig
from deepspeech_training.parallel import step
from deepspeech_training.parallel.devices import CPU, check_devices, configure_devices, tower_devices
from deepspeech_training.parallel.sharded_adam import ShardedAdam
from deepspeech_training.parallel.strategy import (
    Fetches,
    MakeOptimizer,
    NextBatch,
    StepOps,
    StepResult,
    Strategy,
    Summarize,
    TowerFn,
)
from deepspeech_training.parallel.timing import Stragglers, TowerClocks
from deepspeech_training.parallel.towers import build_towers, get_tower_results
from deepspeech_training.parallel.update import UpdateRule, build_update


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
        self._stragglers = Stragglers()

    @property
    def towers(self) -> int:
        return len(self._devices)

    @property
    def devices(self) -> tuple[str, ...]:
        """The device of each tower."""
        return tuple(self._devices)

    @property
    def adam(self) -> Callable[..., tf.compat.v1.train.Optimizer]:
        return partial(ShardedAdam, devices=self._devices) if self._parallel.optimizer_sharding else super().adam

    @property
    def _first_tower(self) -> int:
        """The number of this process's first tower."""
        return 0

    def configure_session(self, proto: tf.compat.v1.ConfigProto) -> None:
        configure_devices(proto, self._parallel)

    def build(
        self,
        next_batch: NextBatch,
        tower_fn: TowerFn,
        make_optimizer: MakeOptimizer,
        watch: Mapping[str, tf.Tensor] | None = None,
        summarize: Summarize | None = None,
    ) -> StepOps:
        with tf.device(CPU):
            optimizer = make_optimizer()
        clocks = TowerClocks(self._devices, self._first_tower)
        outputs, compute_gradients = get_tower_results(
            next_batch, clocks.start(tower_fn), optimizer, self._devices, self._first_tower
        )
        compute_gradients = clocks.end(compute_gradients)
        ops = build_update(outputs, compute_gradients, self._devices, optimizer, self._rule(), watch or {})
        return step.with_summary(clocks.measure(ops, outputs), summarize)

    def _rule(self) -> UpdateRule:
        return UpdateRule(self._parallel.accumulate_steps, self._parallel.grad_clip_norm)

    def build_evaluation(self, next_batch: NextBatch, tower_fn: TowerFn) -> StepOps:
        with tf.compat.v1.name_scope('evaluation'):
            outputs, _ = build_towers(next_batch, tower_fn, self._devices)
            return step.combine_outputs(outputs)

    def after_restore(self, session: tf.compat.v1.Session) -> None:
        """Raises `FlagError` when `session` lacks a tower's device."""
        check_devices(session, self._devices)

    def run_step(self, session: tf.compat.v1.Session, ops: StepOps, fetches: Fetches | None = None) -> StepResult:
        return self._stragglers.add(step.run_step(session, itertools.repeat(ops), fetches))

    def probe(self, session: tf.compat.v1.Session, ops: StepOps) -> None:
        step.probe(session, [ops])

    def epoch_remark(self) -> str:
        """Names the towers that were much slower than the others."""
        return self._stragglers.remark()
