"""Training: builds the graph through a strategy and runs the epochs."""

from __future__ import annotations

import hashlib
import math
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import tensorflow as tf

from deepspeech_training import log
from deepspeech_training.checkpoints import CheckpointStore, GraphVariables, Restored, RunState, belongs_to
from deepspeech_training.config import LAYERS, Config, DataConfig, OptimizerConfig, ScheduleConfig, changed_settings
from deepspeech_training.data.augmentation.augmenter import Augmenter
from deepspeech_training.data.batches import cut_batches
from deepspeech_training.data.checks import DataSets
from deepspeech_training.data.manifest import Sample
from deepspeech_training.data.order import epoch_batches, frames_of
from deepspeech_training.data.turns import Turns
from deepspeech_training.decoding import Decoder, decoder_for
from deepspeech_training.dev_transcripts import DevTranscriber
from deepspeech_training.epochs import TrainingLoop
from deepspeech_training.errors import CheckpointError
from deepspeech_training.graphs import (
    geometry,
    make_pipeline,
    make_session,
    make_tower_fn,
    restore_everywhere,
    with_compute_type,
)
from deepspeech_training.interrupts import Interrupts
from deepspeech_training.parallel.accumulation import local_variable
from deepspeech_training.parallel.loss_scale import loss_scales
from deepspeech_training.parallel.registry import create_strategy
from deepspeech_training.parallel.sharded_adam import moments_at_rest
from deepspeech_training.parallel.step import get_or_create_global_step
from deepspeech_training.parallel.strategy import StepOps, Strategy
from deepspeech_training.passes import TrainingGraph
from deepspeech_training.start_checks import nothing_to_freeze
from deepspeech_training.summaries import SummaryWriter, log_grads_and_vars
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.totals import Ranges, SampleRange


def create_optimizer(
    learning_rate: tf.Tensor,
    optimizer: OptimizerConfig,
    adam: Callable[..., tf.compat.v1.train.Optimizer] = tf.compat.v1.train.AdamOptimizer,
) -> tf.compat.v1.train.Optimizer:
    """Adam, as the strategy makes it; `learning_rate` is a float32 scalar of the graph."""
    return adam(learning_rate=learning_rate, beta1=optimizer.beta1, beta2=optimizer.beta2, epsilon=optimizer.epsilon)


def scheduled_learning_rate(base: tf.Tensor, done: tf.Tensor, schedule: ScheduleConfig, updates: int) -> tf.Tensor:
    """Float32 scalar: `base` times the schedule's factor for the next update, of `updates` in the whole run.

    Rises linearly over the first `lr_warmup_steps` updates; then constant, or half a period of a cosine (Loshchilov
    and Hutter 2017) down to `lr_final_fraction` at the end of the run. It depends on `done` alone, an int64 scalar,
    the updates of this training so far, so that a resumed run continues where it was.
    """
    with tf.device('/cpu:0'), tf.compat.v1.name_scope('learning_rate_schedule'):
        step = tf.cast(done, tf.float64)
        factor = tf.constant(1.0, tf.float64)
        warmup = schedule.lr_warmup_steps
        if schedule.lr_schedule == 'cosine':
            progress = tf.clip_by_value((step - warmup) / max(1, updates - warmup), 0.0, 1.0)
            final = schedule.lr_final_fraction
            factor = final + (1 - final) * (1 + tf.cos(math.pi * progress)) / 2
        if warmup:
            factor *= tf.minimum(tf.constant(1.0, tf.float64), (step + 1) / warmup)
        return base * tf.cast(factor, tf.float32)


def build_graph(
    config: Config,
    strategy: Strategy,
    samples: Sequence[Sample],
    alphabet: Alphabet,
    updates: int,
    frozen: Sequence[str] = (),
    augmenter: Augmenter | None = None,
) -> TrainingGraph:
    """Builds everything in the default graph; `samples` are all the loop will ever read, `updates` those of the run.

    `frozen`: layers that are not trained.
    """
    tf.compat.v1.set_random_seed(config.random_seed)
    pipeline = make_pipeline(config, strategy, samples, alphabet, augmenter)
    n_output = alphabet.size + 1
    global_step = get_or_create_global_step()
    with tf.device('/cpu:0'):
        base = tf.compat.v1.get_variable(
            'learning_rate', initializer=config.optimizer.learning_rate, trainable=False, use_resource=True
        )
        new_learning_rate = tf.compat.v1.placeholder(tf.float32, [], name='new_learning_rate')
        set_learning_rate = base.assign(new_learning_rate).op
        first_step = local_variable('first_step', tf.TensorShape([]), tf.int64)
        new_first_step = tf.compat.v1.placeholder(tf.int64, [], name='new_first_step')
        set_first_step = first_step.assign(new_first_step).op
        done = global_step.read_value() - first_step.read_value()
    learning_rate = scheduled_learning_rate(
        base.read_value() * strategy.learning_rate_scale, done, config.schedule, updates
    )
    step = strategy.build(
        pipeline.next_batch,
        make_tower_fn(config, n_output, training=True, frozen=frozen),
        partial(create_optimizer, learning_rate, config.optimizer, strategy.adam),
        watch={'learning_rate': learning_rate},
        summarize=_step_summary if config.report.summary_dir and strategy.is_chief else None,
    )
    transcription = strategy.build_evaluation(
        pipeline.next_batch, make_tower_fn(config, n_output, training=False, keep_logits=True)
    )
    at_rest = [variable for variable in tf.compat.v1.global_variables() if belongs_to(frozen, variable.op.name)]
    moments_at_rest(at_rest)
    return TrainingGraph(
        pipeline=pipeline,
        step=step,
        evaluation=replace(transcription, per_tower=()),
        transcription=transcription,
        learning_rate=base,
        set_learning_rate=set_learning_rate,
        new_learning_rate=new_learning_rate,
        set_first_step=set_first_step,
        new_first_step=new_first_step,
        global_step=global_step,
        loss_scales=loss_scales(),
        frozen=[variable.op.name for variable in at_rest],
    )


def _step_summary(step: StepOps) -> tf.Tensor:
    """Histograms of the step's gradients and new variables; an empty string when nothing was applied."""
    return tf.cond(step.applied, lambda: log_grads_and_vars(step.gradients), lambda: tf.constant(b''))


@dataclass(frozen=True)
class Phase:
    """The epochs below `until`, in which the layers `frozen` are not trained; with a graph and a session of its own."""

    frozen: tuple[str, ...]
    until: int


def phases(config: Config) -> list[Phase]:
    """Those of a whole run: one, unless layers are unfrozen on the way."""
    epochs, unfrozen = config.schedule.epochs, config.checkpoints.unfreeze_at_epoch
    frozen = LAYERS[: config.checkpoints.freeze_source_layers]
    if frozen and 0 < unfrozen < epochs:
        return [Phase(frozen, unfrozen), Phase((), epochs)]
    return [Phase(frozen, epochs)]


@dataclass(frozen=True)
class Handover:
    """What a phase leaves to the next one: the variables' values, and where training is."""

    values: Mapping[str, np.ndarray]
    state: RunState


def train(config: Config, data_sets: DataSets, alphabet: Alphabet, decoder: Decoder | None = None) -> None:
    """Trains for `config.schedule.epochs` epochs.

    `decoder`: as `config.decoding` describes it, if one is open already; it stays open.

    Raises:
      CheckpointError: a checkpoint cannot be read or written, or there is none whose layers could be frozen.
      DataError: an audio file cannot be read any more.
      FlagError: something is asked for that only a GPU can do, and there is none.
      JobError: another process of the job is gone.
      OutOfMemoryError: a batch, or the model, does not fit into memory.
      TrainingInterruptedError: a signal ended it; the state is saved.
      TrainingDivergedError: the loss was not finite for too many steps in a row.
    """
    strategy = create_strategy(config.parallel)
    config = with_compute_type(config, strategy)
    with ExitStack() as opened:
        training = _Training(config, strategy, data_sets, alphabet, opened, decoder)
        handover = None
        for phase in phases(config):
            handover = training.run(phase, handover)
            if handover is None:
                break


class _Training:
    """What the phases of a training have in common; what is open over several of them is closed with `opened`."""

    def __init__(
        self,
        config: Config,
        strategy: Strategy,
        data_sets: DataSets,
        alphabet: Alphabet,
        opened: ExitStack,
        decoder: Decoder | None,
    ) -> None:
        self._config = config
        self._strategy = strategy
        self._alphabet = alphabet
        self._opened = opened
        self._data = digest(data_sets.train, config.data)
        self._frames, self._turns = frames_of(data_sets.train), data_sets.turns
        self._augmenter = None
        if config.data.augment:
            self._augmenter = Augmenter(config.data.augment, config.features, config.random_seed)
        self._samples: list[Sample] = []
        self._ranges = Ranges(
            replace(self._add('train', data_sets.train), turns=data_sets.turns),
            [self._add(name, rows) for name, rows in data_sets.dev.items()],
            [self._add(name, rows) for name, rows in data_sets.metrics.items()],
        )
        self._writer = SummaryWriter(config.report.summary_dir if strategy.is_chief else '')
        self._interrupts = Interrupts()
        self._transcriber = None
        if config.schedule.dev_wer_every and data_sets.dev:
            if decoder is None:
                decoder = decoder_for(config.decoding, alphabet)
                opened.callback(decoder.close)
            self._transcriber = DevTranscriber(config.decoding, strategy, self._samples, alphabet, decoder)

    def _add(self, name: str, rows: Sequence[Sample]) -> SampleRange:
        added = SampleRange(name, len(self._samples), len(rows))
        self._samples += rows
        return added

    def run(self, phase: Phase, before: Handover | None) -> Handover | None:
        """Trains the epochs of `phase`, which is the first one without `before`; None when training is over then."""
        config, strategy = self._config, self._strategy
        with tf.Graph().as_default() as graph:
            updates = config.schedule.epochs * updates_an_epoch(config, strategy, self._frames, self._turns)
            operations = build_graph(
                config, strategy, self._samples, self._alphabet, updates, phase.frozen, self._augmenter
            )
            variables = GraphVariables(strategy.sharded_slots, operations.frozen)
            store = CheckpointStore(
                config.checkpoints, geometry(config, self._alphabet), variables, {'settings': changed_settings(config)}
            )
            with make_session(strategy) as session:
                restored = None
                if before is None:
                    self._opened.enter_context(self._interrupts)
                    self._opened.callback(self._writer.close)
                    restored = restore_everywhere(strategy, store, session, training=True)
                    state = strategy.agree(first_state(restored, self._data))
                else:
                    state = before.state
                    variables.initialize(session)
                    variables.write(session, before.values)
                    strategy.after_restore(session)
                graph.finalize()
                loop = TrainingLoop(
                    config,
                    strategy,
                    operations,
                    store,
                    self._writer,
                    session,
                    state,
                    self._interrupts,
                    self._ranges,
                    self._transcriber,
                )
                if before is None:
                    self._begin(phase, restored, loop)
                else:
                    log.info(f'Epoch {state.epoch}: all layers are trained from here on')
                loop.run(phase.until)
                return None if loop.is_over else Handover(variables.read(session), state)

    def _begin(self, phase: Phase, restored: Restored | None, loop: TrainingLoop) -> None:
        """Says what the run goes on with, or complains that there are only random layers to be frozen."""
        if phase.frozen and restored is None:
            raise CheckpointError(nothing_to_freeze(self._config))
        if self._strategy.is_chief:
            tell_batches(self._frames, self._config, self._turns)
        if restored and not restored.is_source:
            self._writer.go_on_after(loop.step)
        loop.say_what_is_left()
        if phase.frozen and loop.epoch < phase.until:
            before = f' before epoch {phase.until}' if phase.until < self._config.schedule.epochs else ''
            flag = f'--freeze_source_layers={len(phase.frozen)}'
            log.info(f'{flag}: {", ".join(phase.frozen)} are not trained{before}')
        if restored and self._strategy.is_chief:
            loop.warn_of_other_learning_rate()
            loop.warn_of_other_best()


def first_state(restored: Restored | None, data: str) -> RunState:
    """Where a run begins that continues `restored`, with training samples of the digest `data`."""
    new = RunState(run=uuid.uuid4().hex, data=data)
    if restored is None or restored.is_source:
        return new
    if restored.state is None:
        log.info(f'{restored.path} does not say how many epochs are done: --epochs counts from here')
        return new
    state = restored.state
    if state.data != data and state.rows_done:
        log.warn(
            f'The training samples are not those of {restored.path}: epoch {state.epoch}, which was under way, begins '
            'again'
        )
        state = replace(state, rows_done=0, loss_sum=0.0, count=0.0)
    return replace(state, data=data)


def digest(samples: Sequence[Sample], data: DataConfig) -> str:
    """Changes with the samples, their order and transcripts, but not with the folder they are in.

    Also with how batches are cut where their sizes differ: another cut, shuffled, is another order.
    """
    hashed = hashlib.sha256()
    for sample in samples:
        hashed.update(
            f'{os.path.basename(sample.path)}\0{sample.size}\0{sample.transcript}\n'.encode('utf-8', 'surrogateescape')
        )
    if any(weight != 1 for weight in data.train_weights):
        hashed.update(f'weights {data.train_weights}'.encode())
    if data.bucket_batches or data.train_batch_frames:
        hashed.update(f'{data.bucket_batches} {data.train_batch_frames} {data.train_batch_size}'.encode())
    return hashed.hexdigest()[:16]


def tell_batches(frames: np.ndarray, config: Config, turns: Turns | None) -> None:
    """Says how many samples an epoch takes where they have weights, and how batches of different sizes come out.

    `frames`: [count], of all training samples.
    """
    data = config.data
    if turns is not None:
        frames = frames[turns.of(0, config.random_seed)]
        log.info(f'--train_weights: an epoch takes {len(frames)} samples')
    sizes = cut_batches(frames, data)
    if not (sizes.size and (data.bucket_batches or data.train_batch_frames)):
        return
    log.info(f'An epoch has {len(sizes)} batches of {sizes.min()} to {sizes.max()} samples')
    too_long = int((frames > data.train_batch_frames).sum()) if data.train_batch_frames else 0
    if too_long:
        log.warn(
            f'--train_batch_frames={data.train_batch_frames}: {too_long} samples have more frames than that, up to '
            f'{frames.max()}; each of them is a batch of its own'
        )


def updates_an_epoch(config: Config, strategy: Strategy, frames: np.ndarray, turns: Turns | None = None) -> int:
    """How often the parameters change when samples with so many `frames` [count] are gone through once."""
    batches = epoch_batches(frames, config.data, 0, config.random_seed, turns)
    steps = strategy.shard(batches.rows, batches.sizes, training=True).steps
    return -(-steps // config.parallel.accumulate_steps)
