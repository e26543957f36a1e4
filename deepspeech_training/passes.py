"""Passes over data sets in a session: begun, run step by step, shown; whole ones where nothing is trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from deepspeech_training import log
from deepspeech_training.config import Config
from deepspeech_training.data.augmentation.moments import Moments
from deepspeech_training.data.batches import equal_sizes
from deepspeech_training.data.pipeline import InputPipeline
from deepspeech_training.graphs import next_step
from deepspeech_training.parallel.loss_scale import LossScale
from deepspeech_training.parallel.strategy import Fetches, Shard, StepOps, StepResult, Strategy
from deepspeech_training.totals import EpochTotals, SampleRange

NAMES_SHOWN = 5
"""How many files with a bad loss one log line names."""


@dataclass(frozen=True)
class TrainingGraph:
    """The operations that the loop runs. `transcription` is `evaluation` with the model's output."""

    pipeline: InputPipeline
    step: StepOps
    evaluation: StepOps
    transcription: StepOps
    learning_rate: tf.Variable
    set_learning_rate: tf.Operation
    new_learning_rate: tf.Tensor
    set_first_step: tf.Operation
    new_first_step: tf.Tensor
    global_step: tf.Variable
    loss_scales: Sequence[LossScale] = ()
    frozen: Sequence[str] = ()  # weights that are not trained


class Passes:
    """Knows no strategy but through its interface."""

    def __init__(self, config: Config, strategy: Strategy, graph: TrainingGraph, session: tf.compat.v1.Session) -> None:
        self._config = config
        self._strategy = strategy
        self._graph = graph
        self._session = session

    def start(
        self, order: np.ndarray, sizes: np.ndarray, *, training: bool, first: int = 0, augment: Moments | None = None
    ) -> Shard:
        """Begins a pass over this process's part of the positions `order`, with batches numbered from `first`."""
        shard = self._strategy.shard(order, sizes, training=training)
        numbers = first + shard.numbers
        self._graph.pipeline.start(self._session, shard.rows, shard.sizes, shard.fillers, numbers, augment)
        return shard

    def step(self, ops: StepOps, size_flag: str, fetches: Fetches | None = None) -> StepResult | None:
        """The next step of the pass; None at its end. See `next_step`."""
        pipeline = self._graph.pipeline
        return next_step(self._strategy, self._session, pipeline, ops, fetches, size_flag=size_flag)

    def progress(self, label: str, total: int) -> AbstractContextManager[log.ProgressBar]:
        """How far this process has come with its part."""
        return log.progress(label, total, enabled=self._config.report.show_progressbar and self._strategy.is_chief)

    def evaluate(
        self,
        label: str,
        part: SampleRange,
        heed_signals: Callable[[], None],
        take: Callable[[StepResult], None] | None = None,
    ) -> tuple[EpochTotals, float]:
        """What this process has seen of `part`, and the mean loss over all processes.

        `take` is given each step, with the model's output. `heed_signals` is called where all processes can stop.
        """
        totals = EpochTotals()
        shard = self.start(part.order(), equal_sizes(part.count, self._config.data.dev_batch_size), training=False)
        ops = self._graph.transcription if take else self._graph.evaluation
        label = f'{label} | {part.name}'
        with self.progress(label, len(shard.rows)) as bar:
            while (result := self.step(ops, '--dev_batch_size')) is not None:
                totals.add(result)
                if take:
                    take(result)
                bar.advance(result.count + len(result.bad_names), loss=totals.loss)
                if self._strategy.world_size == 1:  # several processes must stop after the same step
                    heed_signals()
        heed_signals()
        loss = self._strategy.all_mean(totals.loss_sum, totals.count)
        self.report(label, totals, loss)
        self.name_bad_losses(totals.bad_names, 'they are not in the mean')
        return totals, loss

    def report(self, label: str, totals: EpochTotals, loss: float, remark: str = '') -> float:
        """Shows a pass's mean `loss`, and how fast the processes' parts went, of which one is `totals`.

        Returns the share of all frames that was padding; NaN without any.
        """
        seconds = max(totals.seconds, 1e-9)
        waited = totals.totals.get('wait_seconds', 0.0) / seconds
        own = [totals.count, totals.totals.get('frames', 0.0), totals.totals.get('padded_frames', 0.0)]
        count, frames, padded = self._strategy.all_sum(own)
        padding = 1 - frames / padded if padded else math.nan
        log.info(
            f'{label} | loss {loss:.4f} | {int(count)} samples in {totals.seconds:.1f} s, '
            f'{count / seconds:.1f} a second | waited for input {100 * waited:.1f}%'
            + ('' if math.isnan(padding) else f' | padding {100 * padding:.1f}%')
            + (f' | {remark}' if remark else '')
        )
        return padding

    def name_bad_losses(self, names: Sequence[str], consequence: str) -> None:
        """Warns of samples whose loss is not finite, if there are any."""
        if names:
            more = f' and {len(names) - NAMES_SHOWN} more' if len(names) > NAMES_SHOWN else ''
            log.warn(
                f'{len(names)} samples had a loss that is not finite; {consequence}: '
                f'{", ".join(names[:NAMES_SHOWN])}{more}'
            )
