"""The LSTM as cuDNN's, on an NVIDIA GPU, from the same kernel and bias as the others."""

from __future__ import annotations

import tensorflow as tf

from deepspeech_training.model.lstm.state import LSTMState, frame_mask


def cudnn_lstm(
    inputs: tf.Tensor,
    lengths: tf.Tensor | None,
    kernel: tf.Tensor,
    bias: tf.Tensor,
    state: LSTMState,
    *,
    training: bool,
) -> tuple[tf.Tensor, LSTMState]:
    """See `state.LSTM`. Everything is computed in float16 for inputs of that type, in float32 for others.

    TensorFlow's kernel for bfloat16 does nothing but convert to float32 and, also the parameters' gradients, back.
    """
    inputs = inputs if inputs.dtype == tf.float16 else tf.cast(inputs, tf.float32)
    frames, batch = tf.unstack(tf.shape(inputs)[:2])
    if lengths is None:
        lengths = tf.fill([batch], frames)
    rnn = tf.raw_ops.CudnnRNNV3(
        input=inputs,
        input_h=tf.expand_dims(tf.cast(state.h, inputs.dtype), 0),
        input_c=tf.expand_dims(tf.cast(state.c, inputs.dtype), 0),
        params=tf.cast(opaque_params(kernel, bias), inputs.dtype),
        sequence_lengths=tf.maximum(lengths, 1),  # cuDNN knows no sequence of no frames
        rnn_mode='lstm',
        time_major=True,
        is_training=training,
    )
    some = tf.expand_dims(tf.greater(lengths, 0), 1)
    final = LSTMState(
        tf.where(some, tf.cast(tf.squeeze(rnn.output_c, 0), tf.float32), state.c),
        tf.where(some, tf.cast(tf.squeeze(rnn.output_h, 0), tf.float32), state.h),
    )
    return tf.cast(rnn.output, tf.float32) * tf.expand_dims(frame_mask(lengths, frames), 2), final


def opaque_params(kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """cuDNN's flat parameters `[8 * n_hidden * n_hidden + 8 * n_hidden]` from `kernel` and `bias`.

    For one layer in one direction cuDNN stores the input's four matrices, the recurrent four, then the two sets of
    four biases, each in the order input, forget, cell, output, a matrix as `[outputs, inputs]` row by row. It adds up
    its two sets of biases; the second is zero here.
    """
    n_hidden = int(kernel.shape[1]) // 4

    def in_cudnn_order(gates: tf.Tensor) -> list[tf.Tensor]:
        i, ci, f, o = tf.split(gates, 4, axis=-1)
        return [i, f, ci, o]

    from_input, recurrent = tf.split(kernel, 2, axis=0)
    matrices = in_cudnn_order(from_input) + in_cudnn_order(recurrent)
    flat = [tf.reshape(tf.transpose(matrix), [-1]) for matrix in matrices]
    return tf.concat([*flat, *in_cudnn_order(bias), tf.zeros([4 * n_hidden])], axis=0)
