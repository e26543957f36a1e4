"""The LSTM as TensorFlow's fused `BlockLSTM`, with TensorFlow's own gradient.

The graph DeepSpeech trained with and exported: the one to compare with, and the one for clients of its `.pb` files.
What those clients' runtime lacks (`tf.unstack`) works on shapes only, and the export folds it away.
"""

from __future__ import annotations

import tensorflow as tf

from deepspeech_training.model.lstm.state import LSTMState, frame_mask, state_at


def block_lstm(
    inputs: tf.Tensor,
    lengths: tf.Tensor | None,
    kernel: tf.Tensor,
    bias: tf.Tensor,
    state: LSTMState,
    *,
    training: bool,
) -> tuple[tf.Tensor, LSTMState]:
    """See `state.LSTM`. Computes in float32 always.

    The operation has no kernel for bfloat16; that for float16 would keep the cell, and add up the gradients of the
    weights from frame to frame, in float16.
    """
    inputs = tf.cast(inputs, tf.float32)
    n_hidden = int(kernel.shape[1]) // 4
    frames, batch = tf.unstack(tf.shape(inputs)[:2])
    if lengths is None:
        lengths = tf.fill([batch], frames)
    no_peephole = tf.zeros([n_hidden])
    block = tf.raw_ops.BlockLSTM(
        seq_len_max=tf.cast(tf.reduce_max(lengths), tf.int64),
        x=inputs,
        cs_prev=state.c,
        h_prev=state.h,
        w=kernel,
        wci=no_peephole,
        wcf=no_peephole,
        wco=no_peephole,
        b=bias,
        forget_bias=0.0,
        cell_clip=-1.0,  # none
        use_peephole=False,
    )
    final = LSTMState(state_at(lengths, state.c, block.cs), state_at(lengths, state.h, block.h))
    return block.h * tf.expand_dims(frame_mask(lengths, frames), 2), final
