"""The LSTM for CPUs: everything that need not wait for the previous frame is taken out of the loop.

Forward, the input's part of all gates is one product over all frames; the loop keeps the recurrent product. Backward,
the factors of all pointwise derivatives are computed for all frames at once, the loop keeps one product, and the
gradients of kernel and inputs are one product each over all frames. (`BlockLSTM`'s gradient adds a full-size weight
gradient at every frame.)

All products have the weights on the left, `[4n, n] x [n, batch]`, features x frames: TensorFlow multiplies narrow
batches on a CPU about twice as fast that way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from deepspeech_training.model.lstm.state import LSTMState, frame_mask, state_at

tfv1 = tf.compat.v1

_SHUT = 1e9  # added to a gate, it is 0 or 1 exactly whatever else it gets


class _Trace(NamedTuple):
    """What the forward loop keeps for the backward one: TensorArrays over the frames."""

    c: tf.TensorArray  # [n, batch]
    h: tf.TensorArray  # [n, batch]
    gates: tf.TensorArray  # [4n, batch]: sigmoids of all four (the second is not used)
    ci: tf.TensorArray  # [n, batch]: tanh of the second
    co: tf.TensorArray  # [n, batch]: tanh of the cell


def hoisted_lstm(
    inputs: tf.Tensor,
    lengths: tf.Tensor | None,
    kernel: tf.Tensor,
    bias: tf.Tensor,
    state: LSTMState,
    *,
    training: bool,
) -> tuple[tf.Tensor, LSTMState]:
    """See `state.LSTM`."""
    frames, batch = tf.unstack(tf.shape(inputs)[:2])
    if lengths is None:
        lengths = tf.fill([batch], frames)
    mask = frame_mask(lengths, frames)

    @tf.custom_gradient
    def lstm(
        inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, c: tf.Tensor, h: tf.Tensor
    ) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable[..., list[tf.Tensor]]]:
        columns = tf.transpose(tf.reshape(inputs, [-1, inputs.shape[2]]))  # [n, frames * batch]
        initial = LSTMState(tf.transpose(c), tf.transpose(h))
        projected = _project_inputs(columns, kernel, bias, mask)
        trace, last_c = _run_forward(projected, kernel, initial)
        hs = trace.h.stack()

        def gradient(dh: tf.Tensor, dc: tf.Tensor) -> list[tf.Tensor]:
            dgates, dinitial = _run_backward(trace, kernel, initial, tf.transpose(dh, [0, 2, 1]), tf.transpose(dc))
            return [*_parameter_gradients(dgates, columns, hs, kernel, initial), *map(tf.transpose, dinitial)]

        return (tf.transpose(hs, [0, 2, 1]), tf.transpose(last_c)), gradient

    outputs, last_c = lstm(inputs, kernel, bias, state.c, state.h)
    return outputs, LSTMState(last_c, state_at(lengths, state.h, outputs))


def _project_inputs(columns: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The input's part of all gates, `[frames, 4n, batch]`.

    Behind the end of an utterance input and output gate are shut and the forget gate is open: the cell keeps its
    value, the output is zero, and every derivative is zero without further ado.
    """
    n_hidden = int(columns.shape[0])
    frames, batch = tf.unstack(tf.shape(mask))
    projected = tf.matmul(kernel[:n_hidden], columns, transpose_a=True)
    shut = _SHUT * (tf.reshape(mask, [1, -1]) - 1)
    by_gate = tf.concat([shut, tf.zeros_like(shut), -shut, shut], axis=0)  # [4, frames * batch]
    gates = tf.reshape(projected, [4, n_hidden, -1]) + (tf.reshape(bias, [4, n_hidden, 1]) + by_gate[:, tf.newaxis])
    return tf.transpose(tf.reshape(gates, [4 * n_hidden, frames, batch]), [1, 0, 2])


def _run_forward(projected: tf.Tensor, kernel: tf.Tensor, initial: LSTMState) -> tuple[_Trace, tf.Tensor]:
    """The forward loop; returns what it keeps and the last cell `[n, batch]`."""
    n = int(kernel.shape[1]) // 4
    frames = tf.shape(projected)[0]
    recurrent = tf.transpose(kernel[n:])  # a transposed factor inside the loop is 3 to 5 times slower
    inputs = _array(frames).unstack(projected)

    def body(t: tf.Tensor, c: tf.Tensor, h: tf.Tensor, trace: _Trace) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, _Trace]:
        gates = inputs.read(t) + tf.matmul(recurrent, h)
        opened = tf.sigmoid(gates)
        ci = tf.tanh(gates[n : 2 * n])
        c = opened[2 * n : 3 * n] * c + opened[:n] * ci
        co = tf.tanh(c)
        h = opened[3 * n :] * co
        values = _Trace(c, h, opened, ci, co)
        return t + 1, c, h, _Trace(*(array.write(t, value) for array, value in zip(trace, values, strict=True)))

    trace = _Trace(*(_array(frames) for _ in _Trace._fields))
    _, c, _, trace = tfv1.while_loop(lambda t, *_: t < frames, body, [0, *initial, trace], back_prop=False)
    return trace, c


def _run_backward(
    trace: _Trace, kernel: tf.Tensor, initial: LSTMState, dhs: tf.Tensor, dc: tf.Tensor
) -> tuple[tf.Tensor, LSTMState]:
    """The backward loop.

    `dhs` `[frames, n, batch]`: derivatives by the outputs. `dc` `[n, batch]`: by the last cell.
    Returns the derivatives by the gates before their nonlinearity, `[frames, 4n, batch]`, and by the initial state.
    """
    n = int(kernel.shape[1]) // 4
    frames = tf.shape(dhs)[0]
    gates, ci, co = trace.gates.stack(), trace.ci.stack(), trace.co.stack()
    i, f, o = gates[:, :n], gates[:, 2 * n : 3 * n], gates[:, 3 * n :]
    previous_c = tf.concat([initial.c[tf.newaxis], trace.c.stack()[:-1]], axis=0)
    slopes = tf.concat([ci * i * (1 - i), i * (1 - ci * ci), previous_c * f * (1 - f), co * o * (1 - o)], axis=1)
    from_h, through_f, from_gates = (_array(frames).unstack(x) for x in (o * (1 - co * co), f, slopes))
    from_outputs = _array(frames).unstack(dhs)

    def body(
        t: tf.Tensor, dc: tf.Tensor, dh: tf.Tensor, kept: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.TensorArray]:
        dh = dh + from_outputs.read(t)
        dc = dc + dh * from_h.read(t)
        dgates = tf.concat([dc, dc, dc, dh], axis=0) * from_gates.read(t)
        return t - 1, dc * through_f.read(t), tf.matmul(kernel[n:], dgates), kept.write(t, dgates)

    start = [frames - 1, dc, tf.zeros_like(dc), _array(frames)]
    _, dc, dh, dgates = tfv1.while_loop(lambda t, *_: t >= 0, body, start, back_prop=False)
    return dgates.stack(), LSTMState(dc, dh)


def _parameter_gradients(
    dgates: tf.Tensor, columns: tf.Tensor, hs: tf.Tensor, kernel: tf.Tensor, initial: LSTMState
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Derivatives by inputs `[frames, batch, n]`, kernel and bias."""
    n = int(columns.shape[0])
    frames, _, batch = tf.unstack(tf.shape(hs))
    dgates = tf.reshape(tf.transpose(dgates, [1, 0, 2]), [4 * n, -1])
    previous_h = tf.concat([initial.h[tf.newaxis], hs[:-1]], axis=0)
    previous_h = tf.reshape(tf.transpose(previous_h, [1, 0, 2]), [n, -1])
    dinputs = tf.transpose(tf.matmul(kernel[:n], dgates))
    # [4n, frames] x [frames, 2n] and its transpose: faster than the product in the kernel's own orientation.
    dkernel = tf.transpose(tf.matmul(dgates, tf.concat([columns, previous_h], axis=0), transpose_b=True))
    return tf.reshape(dinputs, [frames, batch, n]), dkernel, tf.reduce_sum(dgates, axis=1)


def _array(frames: tf.Tensor) -> tf.TensorArray:
    return tf.TensorArray(tf.float32, size=frames)
