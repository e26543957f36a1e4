"""The epochs of a training: steps, validation, checkpoints, what is shown of them."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import tensorflow as tf

from deepspeech_training import log
from deepspeech_training.checkpoints import CheckpointStore, RunState
from deepspeech_training.config import Config, DataConfig
from deepspeech_training.data.augmentation.moments import moments_of
from deepspeech_training.data.batches import EpochBatches
from deepspeech_training.data.order import epoch_batches, frames_of
from deepspeech_training.dev_sets import DevSets
from deepspeech_training.dev_transcripts import DevTranscriber
from deepspeech_training.errors import JobError, TrainingDivergedError, TrainingInterruptedError
from deepspeech_training.graphs import probe
from deepspeech_training.interrupts import Interrupts
from deepspeech_training.parallel.loss_scale import load_states, read_states
from deepspeech_training.parallel.strategy import Fetches, StepResult, Strategy
from deepspeech_training.passes import NAMES_SHOWN, Passes, TrainingGraph
from deepspeech_training.schedule import BadStepCounter, BestWer, DevLossMonitor
from deepspeech_training.summaries import SummaryWriter
from deepspeech_training.totals import EpochTotals, Pace, Ranges, SampleRange

LOSS_SCALES = 'loss_scales'
"""Where `RunState.extra` has them."""


def size_flag(data: DataConfig) -> str:
    """The flag that decides how large training batches are."""
    return '--train_batch_frames' if data.train_batch_frames else '--train_batch_size'


class TrainingLoop:
    """Runs the epochs over a graph; knows no strategy but through its interface.

    `state` says where training is, and goes on from there; it is what checkpoints keep beside the variables.
    """

    def __init__(
        self,
        config: Config,
        strategy: Strategy,
        graph: TrainingGraph,
        store: CheckpointStore,
        writer: SummaryWriter,
        session: tf.compat.v1.Session,
        state: RunState,
        interrupts: Interrupts,
        ranges: Ranges,
        transcriber: DevTranscriber | None = None,
    ) -> None:
        self._config = config
        self._strategy = strategy
        self._graph = graph
        self._store = store
        self._writer = writer
        self._session = session
        self._state = state
        self._interrupts = interrupts
        self._ranges = ranges
        self._passes = Passes(config, strategy, graph, session)
        self._dev_sets = DevSets(config, strategy, self._passes, ranges.dev, transcriber)
        self._monitor = DevLossMonitor(config.schedule, state.best_loss, state.epochs_without_improvement)
        self._best_wer = BestWer(state.best_wer, state.best_wer_loss)
        self._bad_steps = BadStepCounter(config.schedule.max_bad_steps, state.bad_steps_in_a_row)
        self._last_saved = time.monotonic()
        self._batches = EpochBatches(np.zeros(0, np.int32), np.zeros(0, np.int64))
        self._padding = math.nan
        state.step = int(session.run(graph.global_step))
        state.first_step = state.step if state.first_step < 0 else state.first_step
        session.run(graph.set_first_step, {graph.new_first_step: state.first_step})
        load_states(state.extra.get(LOSS_SCALES), graph.loss_scales, session)

    @property
    def epoch(self) -> int:
        """The one that is under way, or comes next."""
        return self._state.epoch

    @property
    def step(self) -> int:
        """Updates so far, also those of trainings before this one."""
        return self._state.step

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to train."""
        return self._state.epoch >= self._config.schedule.epochs or self._monitor.has_waited_enough

    def run(self, until: int) -> None:
        """Trains epoch by epoch, as long as they are below `until` and training is not over.

        Interruptions, by the launcher of a job too, and the end of another rank leave the last state behind.

        Raises:
          JobError: another process of the job is gone.
          TrainingInterruptedError: a signal ended it.
        """
        state = self._state
        try:
            if self._config.schedule.probe_longest and state.epoch < until and not self.is_over:
                self._probe_longest(self._ranges.train)
            while state.epoch < until and not self.is_over:
                epoch = state.epoch
                self._train_epoch(epoch, self._ranges.train)
                stop = self._validate(epoch)
                self._measure(epoch, self._ranges.metrics)
                self._save_last()
                self._writer.flush()
                if stop:
                    log.info(f'Early stop: the dev loss has not improved for {self._config.schedule.es_epochs} epochs')
            self._store.wait()
            self._state.extra = self._whole_state().extra
        except JobError:  # the update that failed changed nothing
            if self._strategy.sharded_slots is None:  # else a part of the state is gone with the other process
                log.warn('The job cannot go on: writing the last state')
                self._save_last()
            self._store.wait()
            raise
        finally:
            self._strategy.stop()

    def say_what_is_left(self) -> None:
        """Of a training that goes on."""
        state, schedule = self._state, self._config.schedule
        if not (state.epoch or state.rows_done):
            return
        done = f'{state.epoch} of {schedule.epochs} epochs are done'
        if state.epoch >= schedule.epochs:
            log.info(f'Nothing is left to train: {done}; a larger --epochs goes on')
        else:
            log.info(f'{done}' + (f', and {state.rows_done} samples of the next one' if state.rows_done else ''))

    def warn_of_other_learning_rate(self) -> None:
        """A checkpoint brings its learning rate along, as in DeepSpeech; says so when the flag differs."""
        restored = float(self._session.run(self._graph.learning_rate))
        wanted = self._config.optimizer.learning_rate
        if not math.isclose(restored, wanted, rel_tol=1e-5):
            log.warn(
                f"The checkpoint's learning rate {restored:g} is used, not --learning_rate {wanted:g}: "
                '--force_initialize_learning_rate uses the flag'
            )

    def warn_of_other_best(self) -> None:
        """Says what becomes of the best checkpoint when another flag than before decides which one that is."""
        state, best_by = self._state, self._config.schedule.best_by
        if best_by == state.best_by or not math.isfinite(state.best_loss):
            return
        before, now = {'loss': ('loss', 'WER'), 'wer': ('WER', 'loss')}[state.best_by]
        least = state.best_wer if best_by == 'wer' else state.best_loss
        below = f', below {least:.4f}, the lowest so far' if math.isfinite(least) else ''
        log.warn(
            f'--best_by={best_by}: the best checkpoint was chosen by dev {before}; it stays until an epoch has a dev '
            f'{now}{below}'
        )

    def _train_epoch(self, epoch: int, part: SampleRange) -> None:
        data, state = self._config.data, self._state
        self._batches = epoch_batches(self._frames_of(part), data, epoch, self._config.random_seed, part.turns)
        rest = self._batches.after(state.rows_done)
        totals = EpochTotals()
        label = f'Epoch {epoch} | Training'
        first = (epoch << 32) + self._batches.begun(state.rows_done)  # no two batches have the same number
        augment = None
        if data.augment:
            epochs, seed = self._config.schedule.epochs, self._config.random_seed
            augment = moments_of(epoch, epochs, self._frames_of(part), data, seed, part.start, part.turns)
        shard = self._passes.start(rest.rows + part.start, rest.sizes, training=True, first=first, augment=augment)
        with self._passes.progress(label, len(shard.rows)) as bar:
            pace = Pace(self._strategy.side_by_side)
            while (result := self._passes.step(self._graph.step, size_flag(data), self._wanted_summary())) is not None:
                totals.add(result)
                self._count(result)
                self._after_training_step(result, pace.add(result))
                bar.advance(result.count + len(result.bad_names), loss=state.mean_loss)
        state.train_loss = state.mean_loss
        self._padding = self._passes.report(label, totals, state.train_loss, self._strategy.epoch_remark())
        self._passes.name_bad_losses(totals.bad_names, 'their updates were skipped')
        if totals.overflows:
            log.info(f'{totals.overflows} updates were skipped: gradients overflowed, each time halving the loss scale')

    def _rows_after(self, batches: int) -> int:
        """How many of the epoch's rows are done with `batches` more of every tower of every process."""
        done = self._batches.begun(self._state.rows_done)
        return self._batches.rows_after(done + batches * self._strategy.batches_together)

    def _count(self, result: StepResult) -> None:
        """Keeps up with what a step has used and changed."""
        state = self._state
        state.rows_done = self._rows_after(result.batches)
        state.loss_sum += result.job_loss_sum
        state.count += result.job_count
        state.step += int(result.applied)

    def _probe_longest(self, part: SampleRange) -> None:
        """Finds out whether the largest batch fits into memory. Raises `OutOfMemoryError` and `DataError`."""
        data, pipeline = self._config.data, self._graph.pipeline
        frames = self._frames_of(part)
        batches = epoch_batches(frames, data, 0, self._config.random_seed, part.turns)
        rows = batches.largest(frames) + part.start
        if rows.size:
            probe(self._strategy, self._session, pipeline, self._graph.step, rows, size_flag=size_flag(data))

    def _frames_of(self, part: SampleRange) -> np.ndarray:
        return frames_of(self._graph.pipeline.samples[part.start : part.start + part.count])

    def _wanted_summary(self) -> Fetches | None:
        """The histograms, when the next step's turn has come."""
        due = self._writer.enabled and (self._state.step + 1) % self._config.report.summary_steps == 0
        return (lambda ops: ops.summary) if due else None

    def _after_training_step(self, result: StepResult, rates: dict[str, float]) -> None:
        state = self._state
        if result.applied and self._writer.enabled:
            self._writer.scalars('train', state.step, self._step_scalars(result) | rates)
            if result.fetched is not None:
                self._writer.serialized('train', state.step, result.fetched)
        diverged = not result.overflowed and self._bad_steps.update(result.applied)
        state.bad_steps_in_a_row = self._bad_steps.in_a_row
        if diverged:
            names = [name for names in self._strategy.all_gather(result.bad_names) for name in names]
            raise TrainingDivergedError(
                f'the loss or its gradient was not finite for {self._bad_steps.in_a_row} steps in a row '
                f'(--max_bad_steps), last for {", ".join(names[:NAMES_SHOWN]) or "the gradient"}; '
                'the checkpoints written before are good. A lower --learning_rate may help'
            )
        self._heed_signals(save=self._save_is_due(result.applied))

    def _save_is_due(self, applied: bool) -> bool:
        config = self._config.checkpoints
        seconds, steps = config.checkpoint_secs, config.checkpoint_steps
        by_time = seconds > 0 and time.monotonic() - self._last_saved >= seconds
        return by_time or (steps > 0 and applied and self._state.step % steps == 0)

    def _heed_signals(self, *, save: bool = False) -> None:
        """Saves when it is time to, or was asked for; ends training when a signal said so. All processes alike."""
        asked = self._interrupts.take_save_request()
        stop, save = self._strategy.any([self._interrupts.stop is not None, save or asked])
        if stop or save:
            self._save_last()
        if asked:
            self._store.wait()
            log.info('Wrote a checkpoint, as asked by SIGUSR1')
        if stop:
            self._store.wait()
            raise TrainingInterruptedError(
                f'Interrupted in epoch {self._state.epoch} at step {self._state.step}; the state is saved. The same '
                'command goes on from there',
                self._interrupts.stop or signal.SIGTERM,
            )
        self._store.check()

    def _step_scalars(self, result: StepResult) -> dict[str, float]:
        return {
            'step_loss': result.job_loss_sum / result.job_count if result.job_count else math.nan,
            'gradient_norm': result.gradient_norm,
            **result.measures,
        }

    def _validate(self, epoch: int) -> bool:
        """Dev sets, best checkpoint, plateau; returns whether to stop. Then the epoch is over."""
        state, dev = self._state, self._dev_sets.measure(epoch, self._heed_signals)
        # Not before: a run that was stopped on the way here comes here again, and would write some of it twice.
        padding = {} if math.isnan(self._padding) else {'padding_share': self._padding}
        self._writer.scalars('train', state.step, {'epoch_loss': state.train_loss, 'epoch': epoch, **padding})
        state.epoch, state.rows_done, state.loss_sum, state.count = epoch + 1, 0, 0.0, 0.0
        if dev is None:
            return False
        self._writer.scalars('dev', state.step, dev.curves)
        self._writer.texts('dev', state.step, dev.texts)
        state.dev_loss, state.dev_wer = dev.loss, dev.wer
        decision = self._monitor.update(dev.loss)
        state.best_loss = self._monitor.best_loss
        state.epochs_without_improvement = self._monitor.epochs_without_improvement
        has_best_wer = self._best_wer.update(dev.wer, dev.loss)
        state.best_wer, state.best_wer_loss = self._best_wer.wer, self._best_wer.loss
        is_best = has_best_wer if self._config.schedule.best_by == 'wer' else decision.is_best
        if decision.reduce_learning_rate:
            self._reduce_learning_rate(from_best=not (is_best or decision.is_best))
        if is_best:
            self._save_as_best()
        return decision.stop

    def _save_as_best(self) -> None:
        state = self._state
        state.best_by = self._config.schedule.best_by
        path = self._save(self._store.save_best)
        found = f'dev loss so far: {state.dev_loss:.4f}'
        if state.best_by == 'wer':
            found = f'dev WER so far: {state.dev_wer:.4f} (loss {state.dev_loss:.4f})'
        log.info(f'Best {found}' + (f', saved as {path}' if path else ''))

    def _measure(self, epoch: int, parts: Sequence[SampleRange]) -> None:
        for part in parts:
            _, loss = self._passes.evaluate(f'Epoch {epoch} | Metrics', part, self._heed_signals)
            self._writer.scalars('metrics', self._state.step, {f'loss/{part.name}': loss})

    def _reduce_learning_rate(self, *, from_best: bool) -> None:
        """Multiplies the learning rate, and goes back to the best model; updates are counted on."""
        learning_rate = float(self._session.run(self._graph.learning_rate))
        reduced = learning_rate * self._config.schedule.plateau_reduction
        path = None
        if from_best and self._strategy.is_source:
            path = self._store.reload_best(self._session, keep=['global_step', 'learning_rate'])
        path = self._strategy.agree(path)
        self._session.run(self._graph.set_learning_rate, {self._graph.new_learning_rate: reduced})
        self._strategy.after_restore(self._session)
        log.info(
            f'Plateau: learning rate {learning_rate:g} -> {reduced:g}'
            + (f', going on from the best model, {path}' if path else ', going on from the present model')
        )

    def _save_last(self) -> None:
        self._save(self._store.save_last)
        self._last_saved = time.monotonic()

    def _save(self, save: Callable[..., str]) -> str:
        with self._strategy.paused() as waiting:  # steps that changed the variables and were not counted yet
            return save(self._session, self._whole_state(waiting), write=self._strategy.writes_checkpoints)

    def _whole_state(self, waiting: Sequence[StepResult] = ()) -> RunState:
        """The state that belongs to the variables as they are now, after the steps `waiting` too."""
        state = self._state
        scales = read_states(self._graph.loss_scales, self._session)
        return replace(
            state,
            step=int(self._session.run(self._graph.global_step)),
            rows_done=self._rows_after(sum(r.batches for r in waiting)) if waiting else state.rows_done,
            loss_sum=state.loss_sum + sum(result.job_loss_sum for result in waiting),
            count=state.count + sum(result.job_count for result in waiting),
            extra={LOSS_SCALES: scales} if scales else {},
        )
