"""The LSTM as plain operations, one frame after the other: for TFLite, which wants no loop, and as a reference."""

from __future__ import annotations

import tensorflow as tf

from deepspeech_training.model.lstm.state import LSTMState


def unrolled_lstm(
    inputs: tf.Tensor,
    lengths: tf.Tensor | None,
    kernel: tf.Tensor,
    bias: tf.Tensor,
    state: LSTMState,
    *,
    training: bool,
) -> tuple[tf.Tensor, LSTMState]:
    """See `state.LSTM`. The number of frames must be static; raises ValueError otherwise."""
    frames = inputs.shape.as_list()[0]
    if frames is None:
        raise ValueError('the unrolled LSTM needs a static number of frames')
    outputs = []
    for frame in range(frames):
        new = lstm_cell(inputs[frame], kernel, bias, state)
        if lengths is None:
            state = new
            outputs.append(new.h)
        else:
            inside = tf.expand_dims(tf.less(frame, lengths), 1)
            state = LSTMState(tf.where(inside, new.c, state.c), tf.where(inside, new.h, state.h))
            outputs.append(tf.where(inside, new.h, tf.zeros_like(new.h)))
    return tf.stack(outputs), state


def lstm_cell(frame: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, state: LSTMState) -> LSTMState:
    """One frame `[batch, n_hidden]`; the product is computed in its type.

    The kernel is cast for every frame, so that its gradient is added up in float32.
    """
    both = tf.concat([frame, tf.cast(state.h, frame.dtype)], axis=1)
    product = tf.cast(tf.matmul(both, tf.cast(kernel, frame.dtype)), tf.float32)
    gates = tf.nn.bias_add(product, bias)
    i, ci, f, o = tf.split(gates, 4, axis=1)
    c = tf.sigmoid(f) * state.c + tf.sigmoid(i) * tf.tanh(ci)
    return LSTMState(c, tf.sigmoid(o) * tf.tanh(c))
