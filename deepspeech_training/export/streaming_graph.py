"""From chunks of audio to log-probabilities, with a state that the caller keeps: the graph of a SavedModel.

A whole utterance is the one chunk of a stream that begins and ends with it. In a batch every row is a stream of its
own: chunks may have different lengths, and one stream may end while others go on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import tensorflow as tf

from deepspeech_training.config import N_CONTEXT, N_INPUT, Config, FeatureConfig
from deepspeech_training.export.batch_features import BatchMfccs
from deepspeech_training.model.acoustic import create_model
from deepspeech_training.model.layers import WINDOW
from deepspeech_training.model.lstm import LSTMState

HISTORY = 2 * N_CONTEXT
"""Frames that are kept: the next one to be computed, the 9 before it, and those behind it that are known already."""


class StreamState(NamedTuple):
    """What a stream remembers; zeros at its beginning.

    `position`: int64 `[batch]`, samples heard. `samples`: float32 `[batch, window samples]`, the last of them.
    `mfccs`: float32 `[batch, HISTORY, N_INPUT]`, the last frames. `c`, `h`: float32 `[batch, n_hidden]`, of the LSTM.
    """

    position: tf.Tensor
    samples: tf.Tensor
    mfccs: tf.Tensor
    c: tf.Tensor
    h: tf.Tensor


@dataclass(frozen=True)
class StreamOutput:
    """What a chunk adds: float32 `[batch, frames, n_output]`, of which the first `frames` (int32 `[batch]`) count."""

    log_probabilities: tf.Tensor
    frames: tf.Tensor
    state: StreamState


def state_shapes(config: Config) -> StreamState:
    """The shapes of `StreamState`'s tensors without the batch."""
    n_hidden = [config.model.n_hidden]
    return StreamState([], [config.features.window_samples], [HISTORY, N_INPUT], n_hidden, n_hidden)


def zero_state(config: Config, batch: tf.Tensor) -> StreamState:
    """The state at the beginning of `batch` (int32 scalar) streams."""
    types = StreamState(tf.int64, tf.float32, tf.float32, tf.float32, tf.float32)
    tensors = (
        tf.zeros(tf.concat([[batch], tf.constant(shape, tf.int32)], axis=0), dtype)
        for shape, dtype in zip(state_shapes(config), types, strict=True)
    )
    return StreamState(*tensors)


def create_stream(
    config: Config,
    n_output: int,
    mfccs: BatchMfccs,
    samples: tf.Tensor,
    lengths: tf.Tensor,
    last: tf.Tensor,
    state: StreamState,
) -> StreamOutput:
    """Builds the graph for one chunk of each stream.

    `samples`: float32 `[batch, samples]` in [-1, 1], of which the first `lengths` (int32 `[batch]`) are heard; what
    follows them is never used. `last`: bool `[batch]`, whether the stream ends with this chunk. Until then each frame
    waits for the 9 behind it; the end counts as followed by zeros. A stream that has ended gets the state zero.
    """
    features = config.features
    heard = tf.clip_by_value(lengths, 0, tf.shape(samples)[1])
    position = state.position + tf.cast(heard, tf.int64)
    joined = tf.concat([state.samples, samples], axis=1)  # sample 0 of the chunk has the index `window_samples`
    before, after = _frames(state.position, features), _frames(position, features)
    new = after - before
    new_mfccs = _new_mfccs(features, mfccs, joined, state.position, before, new)

    # The frame `before` has the index HISTORY. Zeros follow the last new frame of each row, for streams that end.
    known = tf.concat([state.mfccs, new_mfccs, tf.zeros_like(state.mfccs)], axis=1)
    computed = tf.maximum(before - N_CONTEXT, 0)
    frames = tf.where(last, after, tf.maximum(after - N_CONTEXT, 0)) - computed
    most = tf.reduce_max(frames)
    starts = HISTORY - N_CONTEXT + computed - before
    model = create_model(
        _windows(known, starts, tf.maximum(most, 1)),  # the model wants one frame at least
        frames,
        replace(config.model, compute_type='float32'),
        n_output,
        training=False,
        lstm='hoisted',
        initial_state=LSTMState(state.c, state.h),
    )
    log_probabilities = tf.transpose(tf.nn.log_softmax(model.logits), [1, 0, 2])[:, :most]
    new_state = StreamState(
        position,
        _last(joined, heard, features.window_samples),
        _last(known, new, HISTORY),
        model.state.c,
        model.state.h,
    )
    return StreamOutput(log_probabilities, frames, _forget(new_state, last))


def _frames(position: tf.Tensor, features: FeatureConfig) -> tf.Tensor:
    """How many frames have all their samples when `position` (int64 `[batch]`) are heard: int32 `[batch]`."""
    beyond = tf.maximum(position - features.window_samples + features.step_samples, 0)
    return tf.cast(beyond // features.step_samples, tf.int32)


def _new_mfccs(
    features: FeatureConfig,
    mfccs: BatchMfccs,
    joined: tf.Tensor,
    position: tf.Tensor,
    before: tf.Tensor,
    new: tf.Tensor,
) -> tf.Tensor:
    """`[batch, most, N_INPUT]`: the `new` frames of each row, then zeros. `joined` has audio that ends at `position`.

    Each row is shifted so that its first new frame is the first of `mfccs`.
    """
    window, step = features.window_samples, features.step_samples
    most = tf.reduce_max(new)
    first = tf.cast(tf.cast(before, tf.int64) * step - position, tf.int32) + window
    width = 1 + window + step * (tf.maximum(most, 1) - 1)
    indices = first[:, tf.newaxis] - 1 + tf.range(width)
    shifted = tf.gather(joined, tf.clip_by_value(indices, 0, tf.shape(joined)[1] - 1), batch_dims=1)
    valid = tf.sequence_mask(new, most)[:, :, tf.newaxis]
    computed = mfccs(shifted)[:, :most]
    return tf.where(valid, computed, tf.zeros_like(computed))  # behind the end may be anything, NaN too


def _windows(known: tf.Tensor, starts: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    """`[batch, number, WINDOW, N_INPUT]`: windows of `known`, the first of each row at `starts`, then one a frame."""
    shifts = tf.range(number)[:, tf.newaxis] + tf.range(WINDOW)
    indices = starts[:, tf.newaxis, tf.newaxis] + shifts
    windows = tf.gather(known, tf.minimum(indices, tf.shape(known)[1] - 1), batch_dims=1)
    return tf.ensure_shape(windows, [None, None, WINDOW, N_INPUT])


def _last(values: tf.Tensor, new: tf.Tensor, number: int) -> tf.Tensor:
    """`[batch, number, ...]`: the last values of each row, which has `number` and `new` (`[batch]`) that count."""
    return tf.gather(values, new[:, tf.newaxis] + tf.range(number), batch_dims=1)


def _forget(state: StreamState, last: tf.Tensor) -> StreamState:
    """Zeros for the streams that have ended."""

    def forget(values: tf.Tensor) -> tf.Tensor:
        ended = tf.reshape(last, [-1] + [1] * (values.shape.rank - 1))
        return tf.where(ended, tf.zeros_like(values), values)

    return StreamState(*map(forget, state))
