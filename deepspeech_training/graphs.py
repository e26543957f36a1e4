"""Where data, model and strategy meet: the towers of training and evaluation, and their sessions."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import tensorflow as tf

from deepspeech_training import log
from deepspeech_training.checkpoints import CheckpointStore, Geometry, Restored, belongs_to
from deepspeech_training.config import Config, FeatureConfig
from deepspeech_training.data.augmentation.augmenter import Augmenter
from deepspeech_training.data.batch import Batch
from deepspeech_training.data.manifest import Sample
from deepspeech_training.data.pipeline import InputPipeline
from deepspeech_training.errors import OutOfMemoryError
from deepspeech_training.model.acoustic import create_model
from deepspeech_training.model.ctc import ctc_losses
from deepspeech_training.model.features import compute_mfccs
from deepspeech_training.model.lstm import choose_lstm
from deepspeech_training.model.precision import choose_compute_type
from deepspeech_training.model.variables import freezing
from deepspeech_training.parallel.devices import compute_capabilities, get_available_gpus
from deepspeech_training.parallel.strategy import Fetches, StepOps, StepResult, Strategy, TowerFn, TowerOutput
from deepspeech_training.text.alphabet import Alphabet


def geometry(config: Config, alphabet: Alphabet) -> Geometry:
    """What a checkpoint must have been trained with."""
    features = {
        'audio_sample_rate': config.features.sample_rate,
        'feature_win_len': config.features.window_ms,
        'feature_win_step': config.features.step_ms,
        'feature_backend': config.features.backend,
    }
    return Geometry(
        config.model.n_hidden, alphabet.size, alphabet.path, tuple(alphabet.labels), features, alphabet.normalization
    )


def chosen_lstm(config: Config) -> str:
    """The LSTM implementation for this machine's devices."""
    return choose_lstm(config.model, config.parallel, gpus=bool(get_available_gpus()))


def with_compute_type(config: Config, strategy: Strategy | None = None) -> Config:
    """`config` with the type in which this machine computes products; the same for all processes of `strategy`.

    Raises `FlagError` when float16 is asked for without a GPU.
    """
    if config.model.compute_type == 'float32':
        return config
    gpus = [] if config.parallel.cpu_towers else compute_capabilities()
    chosen = choose_compute_type(config.model.compute_type, gpus)
    if strategy is not None and 'float16' in strategy.all_gather(chosen):
        chosen = 'float16'  # which is on every GPU
    if strategy is None or strategy.is_chief:
        lstm = chosen_lstm(config)
        in_float32 = lstm == 'block' or (lstm, chosen) == ('cudnn', 'bfloat16')
        log.info(f'Mixed precision: products in {chosen}' + (f'; the LSTM ({lstm}) in float32' if in_float32 else ''))
    return replace(config, model=replace(config.model, compute_type=chosen))


def make_tower_fn(
    config: Config, n_output: int, *, training: bool, keep_logits: bool = False, frozen: Sequence[str] = ()
) -> TowerFn:
    """A function that builds one tower: from a `Batch` to its losses.

    With `keep_logits`, `per_sample` has `logits` [frames, batch, n_output], `lengths`, `losses`,
    `indices` and `weights` [batch] for decoding. `frozen`: layers that are not trained.
    """
    lstm = chosen_lstm(config)

    def tower(batch: Batch) -> TowerOutput:
        with freezing(partial(belongs_to, frozen)):
            output = create_model(
                batch.features,
                batch.feature_lengths,
                config.model,
                n_output,
                training=training,
                lstm=lstm,
                seed=config.random_seed,
                stream=batch.number,
            )
        losses = ctc_losses(output.logits, batch.feature_lengths, batch.labels, batch.label_lengths)
        per_sample = {
            'logits': output.logits,
            'lengths': batch.feature_lengths,
            'losses': losses,
            'indices': batch.indices,
            'weights': batch.weights,
        }
        summed = summed_losses(losses, batch, per_sample if keep_logits else {})
        return replace(summed, needs_loss_scale=config.model.compute_type == 'float16')

    return tower


def summed_losses(losses: tf.Tensor, batch: Batch, per_sample: dict[str, tf.Tensor]) -> TowerOutput:
    """Adds up the `losses` [batch] that count: finite ones of rows that are no filler."""
    counted = batch.weights > 0
    finite = tf.math.is_finite(losses)
    usable = counted & finite
    return TowerOutput(
        loss_sum=tf.reduce_sum(tf.where(usable, losses, tf.zeros_like(losses))),
        count=tf.reduce_sum(tf.cast(usable, tf.float32)),
        samples=tf.reduce_sum(tf.cast(counted, tf.float32)),
        bad_names=tf.boolean_mask(batch.names, counted & ~finite),
        totals={
            'frames': _sum_of(tf.boolean_mask(batch.feature_lengths, counted)),
            'padded_frames': _sum_of(tf.where(counted, tf.shape(batch.features)[1], 0)),
            'audio_seconds': tf.reduce_sum(batch.audio_seconds),
            'wait_seconds': batch.wait_seconds,
        },
        per_sample=per_sample,
    )


def _sum_of(counts: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.reduce_sum(counts), tf.float32)


def make_pipeline(
    config: Config,
    strategy: Strategy,
    samples: Sequence[Sample],
    alphabet: Alphabet,
    augmenter: Augmenter | None = None,
) -> InputPipeline:
    """The input of the default graph: all it will ever read are `samples`."""
    in_graph = config.features.backend == 'tensorflow'
    return InputPipeline(
        samples,
        alphabet,
        config.features,
        config.data,
        towers=strategy.towers,
        mfccs=partial(compute_mfccs, features=config.features) if in_graph else None,
        augmenter=augmenter,
    )


def make_session(strategy: Strategy) -> tf.compat.v1.Session:
    """A session on the default graph that has the strategy's devices."""
    proto = tf.compat.v1.ConfigProto()
    strategy.configure_session(proto)
    return tf.compat.v1.Session(config=proto)


def restore_everywhere(
    strategy: Strategy, store: CheckpointStore, session: tf.compat.v1.Session, *, training: bool
) -> Restored | None:
    """Gives the variables of all processes the values of the checkpoint that the source has, or new ones.

    Returns which checkpoint that is; None for new values. To be called before the graph is finalized.

    Raises:
      CheckpointError: the checkpoint asked for is missing, damaged or of other sizes.
      JobError: another process is gone.
      OutOfMemoryError: the model does not fit into memory.
    """
    try:
        return _restore_everywhere(strategy, store, session, training=training)
    except tf.errors.ResourceExhaustedError as error:
        raise _out_of_memory(error, [], '', None) from None


def _restore_everywhere(
    strategy: Strategy, store: CheckpointStore, session: tf.compat.v1.Session, *, training: bool
) -> Restored | None:
    strategy.choose_source(partial(store.candidate, training=training))
    restored = None
    if not strategy.is_source:
        store.initialize(session)
    elif training:
        restored = store.restore_for_training(session)
    else:
        restored = Restored(store.restore_for_evaluation(session), None)
    strategy.after_restore(session)
    restored = strategy.agree(restored)
    if restored and strategy.is_chief and not strategy.is_source:
        log.info(f"Another rank's checkpoint is used: {restored.path}")
    return restored


def next_step(
    strategy: Strategy,
    session: tf.compat.v1.Session,
    pipeline: InputPipeline,
    ops: StepOps,
    fetches: Fetches | None = None,
    *,
    size_flag: str,
) -> StepResult | None:
    """Runs one step of training or evaluation; None at the end of the data.

    `size_flag` decides how large its batches are.

    Raises:
      DataError: an audio file cannot be read any more.
      OutOfMemoryError: the batch does not fit into memory.
    """
    training = ops.train_op is not None
    each = strategy.batches_a_step if training else strategy.towers
    try:
        result = strategy.run_step(session, ops, fetches)
    except tf.errors.OutOfRangeError:
        return None
    except tf.errors.ResourceExhaustedError as error:
        steps = strategy.side_by_side if training else 1
        together = each * steps * (ops.accumulation.steps if ops.accumulation else 1)
        # Of steps side by side, one that began later may be counted already.
        batch = pipeline.largest_under_way(together, before=steps - 1)
        raise _out_of_memory(error, batch, size_flag, pipeline.features, of_several=together > 1) from None
    except tf.errors.OpError as error:
        pipeline.reraise(error)
    pipeline.advance(result.batches * each)
    return result


def utterances(result: StepResult) -> Iterator[tuple[tuple[int, float], np.ndarray]]:
    """Position and loss of each utterance of a step with `keep_logits`, and its logits `[frames, n_output]`."""
    for tower in result.per_tower:
        for row in np.flatnonzero(tower['weights'] > 0).tolist():
            length = tower['lengths'][row]
            # A copy, so that the batch can be freed before all of it is decoded.
            yield (int(tower['indices'][row]), float(tower['losses'][row])), tower['logits'][:length, row].copy()


def probe(
    strategy: Strategy,
    session: tf.compat.v1.Session,
    pipeline: InputPipeline,
    ops: StepOps,
    rows: np.ndarray,
    *,
    size_flag: str,
) -> None:
    """Computes the gradients of the batch of `rows` (positions [batch]) on every tower, and throws them away.

    Raises `OutOfMemoryError` where they do not fit into memory, and `DataError`.
    """
    batch = [pipeline.samples[row] for row in rows]
    pipeline.start(session, np.tile(rows, strategy.towers), np.repeat(len(rows), strategy.towers))
    began = time.monotonic()
    try:
        strategy.probe(session, ops)
    except tf.errors.ResourceExhaustedError as error:
        raise _out_of_memory(error, batch, size_flag, pipeline.features) from None
    except tf.errors.OpError as error:
        pipeline.reraise(error)
    if strategy.is_chief:
        log.info(
            f'--probe_longest: the largest batch ({_described(batch, pipeline.features)}) fits into memory; its '
            f'gradients took {time.monotonic() - began:.1f} s'
        )


def _out_of_memory(
    error: tf.errors.ResourceExhaustedError,
    batch: Sequence[Sample],
    size_flag: str,
    features: FeatureConfig | None,
    *,
    of_several: bool = False,
) -> OutOfMemoryError:
    """The error of a step with `batch`, or with several of which that is the largest."""
    lines = [line.strip() for line in error.message.splitlines() if line.strip()] or ['no memory']
    reason = next((line for line in lines if re.search('alloc', line, re.IGNORECASE)), lines[0])
    if not batch or features is None:
        return OutOfMemoryError(f'out of memory with the model alone. Lower --n_hidden. TensorFlow says: {reason}')
    which = ', the largest of those under way' if of_several else ''
    way_out = f'Lower {size_flag} or --n_hidden, or leave out the longest utterances'
    if len(batch) == 1:
        way_out = 'Leave out utterances as long as that, or lower --n_hidden'
    return OutOfMemoryError(
        f'out of memory with a batch of {_described(batch, features)}{which}. {way_out}. TensorFlow says: {reason}'
    )


def _described(batch: Sequence[Sample], features: FeatureConfig) -> str:
    """How large a batch is, and why."""
    longest = max(batch, key=lambda sample: sample.frames)
    name = f'{longest.path} with {longest.frames} frames ({longest.frames * features.step_ms / 1000:.1f} s)'
    if len(batch) == 1:
        return f'1 utterance, {name}'
    return f'{len(batch)} utterances, {len(batch) * longest.frames} frames when padded to the longest, {name}'
