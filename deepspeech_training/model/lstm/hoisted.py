"""The LSTM for CPUs: everything that need not wait for the previous frame is taken out of the loop.

Forward, the input's part of all gates is one product over all frames; the loop keeps the recurrent product. Backward,
the loop keeps one product and one operation for all derivatives of a cell; the gradients of kernel and inputs are one
product each over all frames. (`BlockLSTM`'s gradient adds a full-size weight gradient at every frame.)

In the loops the weights are on the left, `[4n, n] x [n, batch]`, features x frames: on CPUs with AVX2 TensorFlow
multiplies narrow batches about twice as fast that way, with AVX-512 as fast. `doc/performance.md` has the figures.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from deepspeech_training.model.lstm.state import LSTMState, state_at

tfv1 = tf.compat.v1

_SHUT = 1e9  # added to a gate, it is 0 or 1 exactly whatever else it gets

_LARGE = 2**25
"""Bytes of recurrent weights above which four products of a quarter each are faster than one: more than caches hold."""

Trace = dict[str, tf.TensorArray]
"""What the forward loop keeps, by frame:

`h` and, for the backward loop, `c` `[n, batch]`, the initial ones first;
`gates` `[4n, batch]`, the sigmoids of all four (the second is not used);
`ci` `[n, batch]`, the tanh of the second; `co` `[n, batch]`, the tanh of the cell.
"""


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

    def lstm(
        inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, c: tf.Tensor, h: tf.Tensor
    ) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable[..., list[tf.Tensor]]]:
        rows = tf.reshape(inputs, [-1, inputs.shape[2]])
        initial = LSTMState(tf.transpose(c), tf.transpose(h))
        projected = _project(rows, lengths, frames, kernel, bias)
        trace, last_c = _run_forward(projected, frames, kernel, initial, training)
        outputs = tf.transpose(trace['h'].gather(tf.range(1, frames + 1)), [0, 2, 1])

        def gradient(dh: tf.Tensor, dc: tf.Tensor) -> list[tf.Tensor]:
            dgates, dinitial = _run_backward(trace, kernel, tf.transpose(dh, [0, 2, 1]), tf.transpose(dc))
            previous = tf.concat([h[tf.newaxis], outputs[:-1]], axis=0)
            dinputs, dkernel, dbias = _parameter_gradients(dgates, rows, tf.reshape(previous, tf.shape(rows)), kernel)
            return [tf.reshape(dinputs, tf.shape(inputs)), dkernel, dbias, *map(tf.transpose, dinitial)]

        return (outputs, tf.transpose(last_c)), gradient

    arguments = (inputs, kernel, bias, state.c, state.h)
    outputs, last_c = tf.custom_gradient(lstm)(*arguments) if training else lstm(*arguments)[0]
    return outputs, LSTMState(last_c, state_at(lengths, state.h, outputs))


def _project(rows: tf.Tensor, lengths: tf.Tensor, frames: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """What all gates get from elsewhere than the previous output, `[4n, frames * batch]`.

    Behind the end of an utterance input and output gate are shut and the forget gate is open: the cell keeps its
    value, the output is zero, and every derivative is zero without further ado.
    Bias and `_SHUT` are two more rows of the kernel; to add them afterwards would take as long as a tenth of the
    product.
    """
    n = int(kernel.shape[1]) // 4
    ended = tf.less_equal(lengths[tf.newaxis], tf.range(frames)[:, tf.newaxis])
    ended = tf.reshape(tf.cast(ended, tf.float32), [-1, 1])
    shut = tf.repeat([-_SHUT, 0.0, _SHUT, -_SHUT], n)
    weights = tf.concat([kernel[:n], bias[tf.newaxis], shut[tf.newaxis]], axis=0)
    rows = tf.concat([rows, tf.ones_like(ended), ended], axis=1)
    return tf.matmul(weights, rows, transpose_a=True, transpose_b=True)


def _run_forward(
    projected: tf.Tensor, frames: tf.Tensor, kernel: tf.Tensor, initial: LSTMState, training: bool
) -> tuple[Trace, tf.Tensor]:
    """The forward loop; returns what it keeps and the last cell `[n, batch]`."""
    n, batch = int(kernel.shape[1]) // 4, tf.shape(initial.h)[1]
    # A factor transposed inside the loop is 3 to 5 times slower.
    recurrent = tf.split(tf.transpose(kernel[n:]), 4 if 16 * n * n > _LARGE else 1)

    def body(t: tf.Tensor, c: tf.Tensor, h: tf.Tensor, trace: Trace) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, Trace]:
        from_previous = tf.concat([tf.matmul(part, h) for part in recurrent], axis=0)
        gates = tf.slice(projected, [0, t * batch], [4 * n, batch]) + from_previous
        opened = tf.sigmoid(gates)
        i, _, f, o = tf.split(opened, 4)
        ci = tf.tanh(gates[n : 2 * n])
        new_c = f * c + i * ci
        co = tf.tanh(new_c)
        new_h = o * co
        new_c.set_shape(c.shape)
        new_h.set_shape(h.shape)
        values = {'c': new_c, 'h': new_h, 'gates': opened, 'ci': ci, 'co': co}
        new_trace = {name: array.write(t + 1 if name in 'ch' else t, values[name]) for name, array in trace.items()}
        return t + 1, new_c, new_h, new_trace

    trace = {'h': tf.TensorArray(tf.float32, size=frames + 1).write(0, initial.h)}
    if training:
        trace['c'] = tf.TensorArray(tf.float32, size=frames + 1).write(0, initial.c)
        trace |= {name: tf.TensorArray(tf.float32, size=frames) for name in ('gates', 'ci', 'co')}
    _, c, _, trace = tfv1.while_loop(lambda t, *_: t < frames, body, [0, *initial, trace], back_prop=False)
    return trace, c


def _run_backward(trace: Trace, kernel: tf.Tensor, dhs: tf.Tensor, dc: tf.Tensor) -> tuple[tf.Tensor, LSTMState]:
    """The backward loop.

    `dhs` `[frames, n, batch]`: derivatives by the outputs. `dc` `[n, batch]`: by the last cell.
    Returns the derivatives by the gates before their nonlinearity, `[4n, frames * batch]`, and by the initial state.

    The derivatives of one frame are those of TensorFlow's `LSTMBlockCellGrad`, which has no product in it. To that
    operation our features are the batch and our batch is the features; it puts the four gates side by side,
    `[n, 4 * batch]`, which read as `[4n, batch]` has the gates of each unit next to each other.
    """
    n = int(kernel.shape[1]) // 4
    frames, _, batch = tf.unstack(tf.shape(dhs))
    by_unit = tf.reshape(tf.transpose(tf.reshape(kernel[n:], [n, 4, n]), [0, 2, 1]), [n, 4 * n])
    from_outputs = tf.TensorArray(tf.float32, size=frames).unstack(dhs)
    # What describes the cell's own product, of which only the shapes matter.
    unused = {'x': tf.zeros([n, 1]), 'w': tf.zeros([1 + batch, 4 * batch]), 'b': tf.zeros([4 * batch])}
    unused |= {name: tf.zeros([batch]) for name in ('wci', 'wcf', 'wco')}

    def body(
        t: tf.Tensor, dc: tf.Tensor, dh: tf.Tensor, kept: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.TensorArray]:
        i, _, f, o = tf.split(trace['gates'].read(t), 4)
        previous_c = trace['c'].read(t)
        cell = tf.raw_ops.LSTMBlockCellGrad(
            cs_prev=previous_c,
            h_prev=previous_c,
            i=i,
            cs=previous_c,
            f=f,
            o=o,
            ci=trace['ci'].read(t),
            co=trace['co'].read(t),
            cs_grad=dc,
            h_grad=dh + from_outputs.read(t),
            use_peephole=False,
            **unused,
        )
        new_dh = tf.matmul(by_unit, tf.reshape(cell.dicfo, [4 * n, batch]))
        new_dh.set_shape(dh.shape)
        cell.cs_prev_grad.set_shape(dc.shape)
        return t - 1, cell.cs_prev_grad, new_dh, kept.write(t, cell.dicfo)

    start = [frames - 1, dc, tf.zeros_like(dc), tf.TensorArray(tf.float32, size=frames)]
    _, dc, dh, dgates = tfv1.while_loop(lambda t, *_: t >= 0, body, start, back_prop=False)
    dgates = tf.transpose(tf.reshape(dgates.stack(), [frames, n, 4, batch]), [2, 1, 0, 3])
    return tf.reshape(dgates, [4 * n, -1]), LSTMState(dc, dh)


def _parameter_gradients(
    dgates: tf.Tensor, rows: tf.Tensor, previous: tf.Tensor, kernel: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Derivatives by inputs `[frames * batch, n]`, kernel and bias.

    `dgates`: `[4n, frames * batch]`. `rows`, `previous`: `[frames * batch, n]`, inputs and previous outputs.
    """
    n = int(rows.shape[1])
    dkernel = tf.matmul(tf.concat([rows, previous], axis=1), dgates, transpose_a=True, transpose_b=True)
    with tf.control_dependencies([dkernel]):  # side by side they would fight for the caches
        dinputs = tf.matmul(dgates, kernel[:n], transpose_a=True, transpose_b=True)
    return dinputs, dkernel, tf.reduce_sum(dgates, axis=1)
