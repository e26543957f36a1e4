"""The epochs of a training: steps, validation, checkpoints, what is shown of them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from deepspeech_training import log
from deepspeech_training.checkpoints import CheckpointStore
from deepspeech_training.config import Config
from deepspeech_training.data.order import epoch_order
from deepspeech_training.data.pipeline import InputPipeline
from deepspeech_training.errors import JobError, TrainingDivergedError
from deepspeech_training.graphs import next_step
from deepspeech_training.launch import sigterm_noted
from deepspeech_training.parallel.strategy import Fetches, Shard, StepOps, StepResult, Strategy
from deepspeech_training.schedule import BadStepCounter, DevLossMonitor
from deepspeech_training.summaries import SummaryWriter
from deepspeech_training.totals import EpochTotals, Pace

NAMES_SHOWN = 5
"""How many files with a bad loss one log line names."""


@dataclass(frozen=True)
class SampleRange:
    """The positions of one data set in the pipeline's list of samples."""

    name: str
    start: int
    count: int

    def order(self) -> np.ndarray:
        return np.arange(self.start, self.start + self.count, dtype=np.int32)


@dataclass(frozen=True)
class TrainingGraph:
    """The operations that the loop runs."""

    pipeline: InputPipeline
    step: StepOps
    evaluation: StepOps
    learning_rate: tf.Variable
    set_learning_rate: tf.Operation
    new_learning_rate: tf.Tensor
    global_step: tf.Variable


class TrainingLoop:
    """Runs the epochs over a graph; knows no strategy but through its interface."""

    def __init__(
        self,
        config: Config,
        strategy: Strategy,
        graph: TrainingGraph,
        store: CheckpointStore,
        writer: SummaryWriter,
        session: tf.compat.v1.Session,
    ) -> None:
        self._config = config
        self._strategy = strategy
        self._graph = graph
        self._store = store
        self._writer = writer
        self._session = session
        self._monitor = DevLossMonitor(config.schedule, best_loss=strategy.agree(store.best_loss()))
        self._bad_steps = BadStepCounter(config.schedule.max_bad_steps)
        self._last_saved = time.monotonic()
        self._step = int(session.run(graph.global_step))
        self._terminated = threading.Event()

    def run(
        self, train_range: SampleRange, dev_ranges: Sequence[SampleRange], metrics_ranges: Sequence[SampleRange]
    ) -> None:
        """Trains epoch by epoch, until the last one or an early stop.

        Interruptions, by the launcher of a job too, and the end of another rank leave the last state behind.

        Raises:
          JobError: another process of the job is gone.
        """
        in_job = self._strategy.world_size > 1 and self._strategy.writes_checkpoints
        with sigterm_noted() if in_job else nullcontext(self._terminated) as self._terminated:
            self._run(train_range, dev_ranges, metrics_ranges)

    def _run(
        self, train_range: SampleRange, dev_ranges: Sequence[SampleRange], metrics_ranges: Sequence[SampleRange]
    ) -> None:
        try:
            for epoch in range(self._config.schedule.epochs):
                self._train_epoch(epoch, train_range)
                stop = self._validate(epoch, dev_ranges)
                self._measure(epoch, metrics_ranges)
                self._save_last()
                self._writer.flush()
                if stop:
                    log.info(f'Early stop: the dev loss has not improved for {self._config.schedule.es_epochs} epochs')
                    break
        except KeyboardInterrupt:
            self._strategy.stop()
            log.warn('Interrupted: writing the last state')
            self._save_last()
            raise
        except JobError:  # the update that failed changed nothing
            log.warn('The job cannot go on: writing the last state')
            self._save_last()
            raise
        finally:
            self._strategy.stop()

    def warn_of_other_learning_rate(self) -> None:
        """A checkpoint brings its learning rate along, as in DeepSpeech; says so when the flag differs."""
        restored = float(self._session.run(self._graph.learning_rate))
        wanted = self._config.optimizer.learning_rate
        if not math.isclose(restored, wanted, rel_tol=1e-5):
            log.warn(
                f"The checkpoint's learning rate {restored:g} is used, not --learning_rate {wanted:g}: "
                '--force_initialize_learning_rate uses the flag'
            )

    def _train_epoch(self, epoch: int, part: SampleRange) -> None:
        data = self._config.data
        order = epoch_order(part.count, data.train_batch_size, epoch, data, self._config.random_seed) + part.start
        totals = EpochTotals()
        label = f'Epoch {epoch} | Training'
        shard = self._start(order, data.train_batch_size, training=True)
        with self._progress(label, len(shard.rows)) as bar:
            pace = Pace(self._strategy.side_by_side)
            while (result := self._run_step(self._graph.step, self._wanted_summary())) is not None:
                totals.add(result)
                self._after_training_step(result, pace.add(result))
                bar.advance(result.count + len(result.bad_names), loss=totals.loss)
        loss = self._report_epoch(label, totals, self._strategy.epoch_remark())
        self._name_bad_losses(totals.bad_names, 'their updates were skipped')
        if totals.overflows:
            log.info(f'{totals.overflows} updates were skipped: gradients overflowed, each time halving the loss scale')
        self._writer.scalars('train', self._step, {'epoch_loss': loss, 'epoch': epoch})

    def _start(self, order: np.ndarray, batch_size: int, *, training: bool) -> Shard:
        """Begins a pass over this process's part of the positions `order`."""
        shard = self._strategy.shard(order, batch_size, training=training)
        self._graph.pipeline.start(self._session, shard.rows, batch_size, shard.fillers)
        return shard

    def _wanted_summary(self) -> Fetches | None:
        """The histograms, when the next step's turn has come."""
        due = self._writer.enabled and (self._step + 1) % self._config.report.summary_steps == 0
        return (lambda ops: ops.summary) if due else None

    def _after_training_step(self, result: StepResult, rates: dict[str, float]) -> None:
        self._step += int(result.applied)
        if result.applied and self._writer.enabled:
            self._writer.scalars('train', self._step, self._step_scalars(result) | rates)
            if result.fetched is not None:
                self._writer.serialized('train', self._step, result.fetched)
        if not result.overflowed and self._bad_steps.update(result.applied):
            names = [name for names in self._strategy.all_gather(result.bad_names) for name in names]
            raise TrainingDivergedError(
                f'the loss or its gradient was not finite for {self._bad_steps.in_a_row} steps in a row '
                f'(--max_bad_steps), last for {", ".join(names[:NAMES_SHOWN]) or "the gradient"}; '
                'the checkpoints written before are good. A lower --learning_rate may help'
            )
        checkpoint_secs = self._config.checkpoints.checkpoint_secs
        if checkpoint_secs > 0 and time.monotonic() - self._last_saved >= checkpoint_secs:
            self._save_last()

    def _step_scalars(self, result: StepResult) -> dict[str, float]:
        return {
            'step_loss': result.loss_sum / result.count if result.count else math.nan,
            'gradient_norm': result.gradient_norm,
            **result.measures,
        }

    def _run_step(self, ops: StepOps, fetches: Fetches | None = None) -> StepResult | None:
        if self._terminated.is_set():
            raise KeyboardInterrupt
        return next_step(self._strategy, self._session, self._graph.pipeline, ops, fetches)

    def _validate(self, epoch: int, parts: Sequence[SampleRange]) -> bool:
        """Dev losses, best checkpoint, plateau; returns whether to stop."""
        if not parts:
            return False
        loss_sum, count = 0.0, 0.0
        for part in parts:
            totals = self._evaluate(f'Epoch {epoch} | Validation', 'dev', part)
            loss_sum, count = loss_sum + totals.loss_sum, count + totals.count
        dev_loss = self._strategy.all_mean(loss_sum, count)
        self._writer.scalars('dev', self._step, {'epoch_loss': dev_loss})
        decision = self._monitor.update(dev_loss)
        if decision.is_best:
            path = self._save_best(dev_loss)
            log.info(f'Best dev loss so far: {dev_loss:.4f}' + (f', saved as {path}' if path else ''))
        if decision.reduce_learning_rate:
            self._reduce_learning_rate()
        return decision.stop

    def _measure(self, epoch: int, parts: Sequence[SampleRange]) -> None:
        for part in parts:
            self._evaluate(f'Epoch {epoch} | Metrics', 'metrics', part)

    def _evaluate(self, label: str, kind: str, part: SampleRange) -> EpochTotals:
        totals = EpochTotals()
        shard = self._start(part.order(), self._config.data.dev_batch_size, training=False)
        label = f'{label} | {part.name}'
        with self._progress(label, len(shard.rows)) as bar:
            while (result := self._run_step(self._graph.evaluation)) is not None:
                totals.add(result)
                bar.advance(result.count + len(result.bad_names), loss=totals.loss)
        loss = self._report_epoch(label, totals)
        self._name_bad_losses(totals.bad_names, 'they are not in the mean')
        self._writer.scalars(kind, self._step, {f'loss/{part.name}': loss})
        return totals

    def _reduce_learning_rate(self) -> None:
        """Goes back to the best model and multiplies the learning rate, which is saved with that model."""
        learning_rate = float(self._session.run(self._graph.learning_rate))
        reduced = learning_rate * self._config.schedule.plateau_reduction
        path = self._strategy.agree(self._store.reload_best(self._session) if self._strategy.is_source else None)
        self._session.run(self._graph.set_learning_rate, {self._graph.new_learning_rate: reduced})
        self._strategy.after_restore(self._session)
        log.info(
            f'Plateau: learning rate {learning_rate:g} -> {reduced:g}'
            + (f', going on from the best model, {path}' if path else ', going on from the present model')
        )
        if path:
            self._step = int(self._session.run(self._graph.global_step))
            self._save_best(self._monitor.best_loss)

    def _save_best(self, dev_loss: float) -> str:
        if not self._strategy.writes_checkpoints:
            return ''
        return self._store.save_best(self._session, self._step, dev_loss)

    def _save_last(self) -> None:
        if self._strategy.writes_checkpoints:
            with self._strategy.paused():
                self._store.save_last(self._session, int(self._session.run(self._graph.global_step)))
        self._last_saved = time.monotonic()

    def _progress(self, label: str, total: int) -> AbstractContextManager[log.ProgressBar]:
        return log.progress(label, total, enabled=self._config.report.show_progressbar and self._strategy.is_chief)

    def _report_epoch(self, label: str, totals: EpochTotals, remark: str = '') -> float:
        """Shows what the processes' parts of an epoch added up to; returns the mean loss over all of them."""
        seconds = max(totals.seconds, 1e-9)
        waited = totals.totals.get('wait_seconds', 0.0) / seconds
        loss_sum, count = self._strategy.all_sum([totals.loss_sum, totals.count])
        loss = loss_sum / count if count else math.nan
        log.info(
            f'{label} | loss {loss:.4f} | {int(count)} samples in {totals.seconds:.1f} s, '
            f'{count / seconds:.1f} a second | waited for input {100 * waited:.1f}%'
            + (f' | {remark}' if remark else '')
        )
        return loss

    def _name_bad_losses(self, names: Sequence[str], consequence: str) -> None:
        if names:
            more = f' and {len(names) - NAMES_SHOWN} more' if len(names) > NAMES_SHOWN else ''
            log.warn(
                f'{len(names)} samples had a loss that is not finite; {consequence}: '
                f'{", ".join(names[:NAMES_SHOWN])}{more}'
            )
