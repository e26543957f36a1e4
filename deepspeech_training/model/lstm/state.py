"""What all LSTM implementations share."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import tensorflow as tf


class LSTMState(NamedTuple):
    """Cell and output of the LSTM after a frame, float32 `[batch, n_hidden]` each."""

    c: tf.Tensor
    h: tf.Tensor


class LSTM(Protocol):
    """An LSTM over a padded batch (Hochreiter and Schmidhuber 1997, with forget gate, without peepholes).

    Gates in the order input, cell, forget, output, along the last axis of `kernel` and `bias`; the rows of `kernel`
    are those of the input, then those of the previous output. Nothing is added to the forget gate.

    `inputs`: `[frames, batch, n_hidden]`, finite, behind the end of an utterance too. Products are computed in their
    type, unless an implementation says otherwise; cells and gates are float32.
    `lengths`: int32 `[batch]`, frames of each utterance; None: all of them.
    `kernel`: float32 `[2 * n_hidden, 4 * n_hidden]`. `bias`: float32 `[4 * n_hidden]`. `state`: the initial state.
    `training`: whether gradients are wanted; without, less is kept.
    Returns the outputs, float32 `[frames, batch, n_hidden]`, zero behind the end of an utterance, and the state at the
    end of each utterance (the initial one for an utterance of no frames).
    """

    def __call__(
        self,
        inputs: tf.Tensor,
        lengths: tf.Tensor | None,
        kernel: tf.Tensor,
        bias: tf.Tensor,
        state: LSTMState,
        *,
        training: bool,
    ) -> tuple[tf.Tensor, LSTMState]: ...


def zero_state(batch: tf.Tensor, n_hidden: int) -> LSTMState:
    """The state before the first frame."""
    zeros = tf.zeros([batch, n_hidden])
    return LSTMState(zeros, zeros)


def frame_mask(lengths: tf.Tensor, frames: tf.Tensor) -> tf.Tensor:
    """Float32 `[frames, batch]`: 1 for the frames of an utterance, 0 behind its end."""
    positions = tf.expand_dims(tf.range(frames), 1)
    return tf.cast(tf.less(positions, tf.expand_dims(lengths, 0)), tf.float32)


def state_at(lengths: tf.Tensor, initial: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
    """The state `[batch, n_hidden]` after `lengths` frames.

    `initial`: `[batch, n_hidden]`. `states`: `[frames, batch, n_hidden]`, after each frame.
    """
    all_states = tf.concat([tf.expand_dims(initial, 0), states], axis=0)
    rows = tf.range(tf.shape(lengths)[0])
    return tf.gather_nd(all_states, tf.stack([lengths, rows], axis=1))
