"""Synchronous training: one mini-batch at a time, on one device after another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from deepspeech_training.config import ParallelConfig
from deepspeech_training.parallel import step
from deepspeech_training.parallel.devices import CPU
from deepspeech_training.parallel.hybrid import HybridStrategy
from deepspeech_training.parallel.strategy import (
    Fetches,
    MakeOptimizer,
    NextBatch,
    StepOps,
    StepResult,
    Summarize,
    TowerFn,
)
from deepspeech_training.parallel.update import build_updates_in_turn


@dataclass(frozen=True)
class TurnOps(StepOps):
    """The steps of towers that do not work together; its own operations are those of the first."""

    turns: Sequence[StepOps] = ()


class SyncStrategy(HybridStrategy):
    """Each update comes from one mini-batch, which the devices compute in turn, with the parameters on the CPU.

    The parameters are, after any number of updates, those of one device that saw the same batches; only one device
    is busy at any time. Evaluation, which changes nothing, uses all devices at once.
    """

    name = 'sync'

    def __init__(self, parallel: ParallelConfig, devices: Sequence[str] | None = None) -> None:
        super().__init__(parallel, devices)
        self._turn = 0

    @property
    def batches_a_step(self) -> int:
        return 1

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
        turns = build_updates_in_turn(next_batch, tower_fn, self._devices, optimizer, self._rule(), watch or {})
        return turn_ops([step.with_summary(ops, summarize) for ops in turns])

    def run_step(self, session: tf.compat.v1.Session, ops: StepOps, fetches: Fetches | None = None) -> StepResult:
        if not isinstance(ops, TurnOps):
            return super().run_step(session, ops, fetches)
        return step.run_step(session, self._turns(ops), fetches)

    def probe(self, session: tf.compat.v1.Session, ops: StepOps) -> None:
        for turn in ops.turns if isinstance(ops, TurnOps) else [ops]:
            step.probe(session, [turn])

    def _turns(self, ops: TurnOps) -> Iterator[StepOps]:
        while True:
            self._turn += 1
            yield ops.turns[(self._turn - 1) % len(ops.turns)]


def turn_ops(turns: Sequence[StepOps]) -> TurnOps:
    """`turns` as one step, which shows the operations of the first."""
    first = {field.name: getattr(turns[0], field.name) for field in dataclasses.fields(StepOps)}
    return TurnOps(**first, turns=turns)
