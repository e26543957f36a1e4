"""The LSTM for CPUs: everything that need not wait for the previous frame is taken out of the loop.

Forward, the input's part of all gates is one product over all frames; the loop keeps the recurrent product. Backward,
the loop keeps one product and one operation for all derivatives of a cell; the gradients of kernel and inputs are one
product each over all frames. (`BlockLSTM`'s gradient adds a full-size weight gradient at every frame.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from deepspeech_training.model.lstm.orientation import Orientation, Part, choose_orientation, parts_of
from deepspeech_training.model.lstm.state import LSTMState, state_at

tfv1 = tf.compat.v1

_SHUT = 1e9  # added to a gate, it is 0 or 1 exactly whatever else it gets

Trace = dict[str, tf.TensorArray]
"""What the forward loop of a part keeps for the backward loop, frame by frame.

The cell `c`, the initial one first; the gates `i`, `f`, `o`; the tanh of the cell gate, `ci`, and of the cell, `co`.
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
    n = int(kernel.shape[1]) // 4
    frames, batch = tf.unstack(tf.shape(inputs)[:2])
    orientation = choose_orientation(n)
    ended = tf.zeros([frames * batch, 1]) if lengths is None else _ended(lengths, frames)

    def lstm(
        inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, c: tf.Tensor, h: tf.Tensor
    ) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable[..., list[tf.Tensor]]]:
        rows = tf.reshape(inputs, [-1, n])
        initial = LSTMState(orientation.turn(c), orientation.turn(h))
        projected = _project(orientation, rows, ended, kernel[:n], bias)
        recurrent = tf.cast(kernel[n:], rows.dtype)
        parts = parts_of(batch, orientation.parts if training else 1)
        hs, last_c, traces = _run_forward(orientation, projected, parts, recurrent, initial, frames, training)
        outputs = tf.ensure_shape(orientation.turn(hs), [None, None, n])

        def gradient(dh: tf.Tensor, dc: tf.Tensor) -> list[tf.Tensor]:
            turned = orientation.turn(dh), orientation.turn(dc)
            dgates, dinitial = _run_backward(orientation, traces, parts, tf.cast(kernel[n:], rows.dtype), *turned)
            previous = tf.concat([h[tf.newaxis], outputs[:-1]], axis=0)
            both = tf.concat([rows, tf.cast(tf.reshape(previous, tf.shape(rows)), rows.dtype)], axis=1)
            dinputs, dkernel, dbias = orientation.gradients(dgates, both, kernel[:n])
            return [tf.reshape(dinputs, tf.shape(inputs)), dkernel, dbias, *map(orientation.turn, dinitial)]

        return (outputs, orientation.turn(last_c)), gradient

    arguments = (inputs, kernel, bias, state.c, state.h)
    outputs, last_c = tf.custom_gradient(lstm)(*arguments) if training else lstm(*arguments)[0]
    last_h = outputs[-1] if lengths is None else state_at(lengths, state.h, outputs)
    return outputs, LSTMState(last_c, last_h)


def _ended(lengths: tf.Tensor, frames: tf.Tensor) -> tf.Tensor:
    """Float32 `[frames * batch, 1]`: 1 behind the end of an utterance."""
    ended = tf.less_equal(lengths[tf.newaxis], tf.range(frames)[:, tf.newaxis])
    return tf.reshape(tf.cast(ended, tf.float32), [-1, 1])


def _project(
    orientation: Orientation, rows: tf.Tensor, ended: tf.Tensor, from_inputs: tf.Tensor, bias: tf.Tensor
) -> tf.Tensor:
    """What the gates of all frames get from elsewhere than the previous output.

    Behind the end of an utterance input and output gate are shut and the forget gate is open: the cell keeps its
    value, the output is zero, and every derivative is zero without further ado. Bias and `_SHUT` are two more rows of
    the weights; to add them afterwards would take as long as a tenth of the product.
    """
    value = min(_SHUT, float(rows.dtype.max) / 2)  # float16 ends before
    shut = tf.repeat([-value, 0.0, value, -value], from_inputs.shape[0])
    weights = tf.concat([from_inputs, bias[tf.newaxis], shut[tf.newaxis]], axis=0)
    ended = tf.cast(ended, rows.dtype)
    inputs = tf.concat([rows, tf.ones_like(ended), ended], axis=1)
    return orientation.project(inputs, tf.cast(weights, rows.dtype))


def _run_forward(
    orientation: Orientation,
    projected: tf.Tensor,
    parts: Sequence[Part],
    recurrent: tf.Tensor,
    initial: LSTMState,
    frames: tf.Tensor,
    training: bool,
) -> tuple[tf.Tensor, tf.Tensor, list[Trace]]:
    """The forward loops of all parts.

    Returns all outputs, a frame after the other, the last cell, and what each part keeps (nothing unless `training`).
    """
    weights = orientation.forward_weights(recurrent)
    batch = tf.add_n([part.count for part in parts])
    outputs = _array_of_all(frames, parts)
    ends: list[tuple[tf.Tensor, Trace, tf.TensorArray]] = []
    for part, c, h in zip(parts, orientation.split(initial.c, parts), orientation.split(initial.h, parts), strict=True):
        trace: Trace = {}
        if training:
            trace = {name: tf.TensorArray(tf.float32, size=frames) for name in ('i', 'f', 'o', 'ci', 'co')}
            trace['c'] = tf.TensorArray(tf.float32, size=frames + 1).write(0, c)
        body = _forward_body(orientation, projected, batch, part, weights)
        start = [0, c, h, trace, outputs]
        _, c, _, trace, written = tfv1.while_loop(lambda t, *_: t < frames, body, start, back_prop=False)
        ends.append((c, trace, written))
    cells, traces, arrays = zip(*ends, strict=True)
    shape = [frames, *tf.unstack(tf.shape(initial.h))]
    return tf.reshape(_concat(outputs, arrays), shape), orientation.join(cells), list(traces)


def _forward_body(
    orientation: Orientation, projected: tf.Tensor, batch: tf.Tensor, part: Part, weights: list[tf.Tensor]
) -> Callable[..., tuple[Any, ...]]:
    """One frame of a part."""

    def body(t: tf.Tensor, c: tf.Tensor, h: tf.Tensor, trace: Trace, outputs: tf.TensorArray) -> tuple[Any, ...]:
        from_inputs = tf.cast(orientation.frame(projected, t, batch, part), tf.float32)
        gates = from_inputs + orientation.forward(h, weights)
        i, ci, f, o = tf.split(gates, 4, axis=orientation.gate_axis)
        i, ci, f, o = tf.sigmoid(i), tf.tanh(ci), tf.sigmoid(f), tf.sigmoid(o)
        new_c = f * c + i * ci
        co = tf.tanh(new_c)
        new_h = o * co
        new_c.set_shape(c.shape)
        new_h.set_shape(h.shape)
        values = {'c': new_c, 'i': i, 'f': f, 'o': o, 'ci': ci, 'co': co}
        new_trace = {name: array.write(t + 1 if name == 'c' else t, values[name]) for name, array in trace.items()}
        return t + 1, new_c, new_h, new_trace, outputs.write(part.place(t), new_h)

    return body


def _run_backward(
    orientation: Orientation,
    traces: Sequence[Trace],
    parts: Sequence[Part],
    recurrent: tf.Tensor,
    dhs: tf.Tensor,
    dc: tf.Tensor,
) -> tuple[tf.Tensor, LSTMState]:
    """The backward loops of all parts.

    `dhs`: derivatives by the outputs, a frame after the other. `dc`: by the last cell.
    Returns the derivatives by the gates before their nonlinearity (`dicfo` of `LSTMBlockCellGrad`, a frame after the
    other) and by the initial state.
    """
    frames, rows, columns = tf.unstack(tf.shape(dhs))
    weights = orientation.backward_weights(recurrent)
    heights = tf.tile(orientation.heights(parts, int(recurrent.shape[0])), [frames])
    from_outputs = _array_of_all(frames, parts).split(tf.reshape(dhs, [-1, columns]), heights)
    dgates = _array_of_all(frames, parts)
    ends: list[tuple[tf.Tensor, tf.Tensor, tf.TensorArray]] = []
    for part, trace, own in zip(parts, traces, orientation.split(dc, parts), strict=True):
        body = _backward_body(orientation, trace, part, weights, from_outputs, own)
        start = [frames - 1, own, tf.zeros_like(own), dgates]
        ends.append(tfv1.while_loop(lambda t, *_: t >= 0, body, start, back_prop=False)[1:])
    dcs, dh, arrays = zip(*ends, strict=True)
    all_dgates = tf.reshape(_concat(dgates, arrays), [frames, rows, 4 * columns])
    return all_dgates, LSTMState(orientation.join(dcs), orientation.join(dh))


def _backward_body(
    orientation: Orientation,
    trace: Trace,
    part: Part,
    weights: list[tf.Tensor],
    from_outputs: tf.TensorArray,
    dc: tf.Tensor,
) -> Callable[..., tuple[Any, ...]]:
    """One frame of a part. `LSTMBlockCellGrad` has all derivatives of a frame's cell and no product in it."""
    rows, columns = tf.unstack(tf.shape(dc))
    # What describes the cell's own product, of which only the shapes matter.
    unused = {'x': tf.zeros([rows, 1]), 'w': tf.zeros([1 + columns, 4 * columns]), 'b': tf.zeros([4 * columns])}
    unused |= {name: tf.zeros([columns]) for name in ('wci', 'wcf', 'wco')}

    def body(t: tf.Tensor, dc: tf.Tensor, dh: tf.Tensor, kept: tf.TensorArray) -> tuple[Any, ...]:
        previous_c = trace['c'].read(t)
        gates = {name: trace[name].read(t) for name in ('i', 'f', 'o', 'ci', 'co')}
        cell = tf.raw_ops.LSTMBlockCellGrad(
            cs_prev=previous_c,
            cs=previous_c,  # these two
            h_prev=previous_c,  # take no part in the derivatives
            cs_grad=dc,
            h_grad=dh + from_outputs.read(part.place(t)),
            use_peephole=False,
            **gates,
            **unused,
        )
        new_dh = orientation.backward(cell.dicfo, weights)
        new_dh.set_shape(dh.shape)
        cell.cs_prev_grad.set_shape(dc.shape)
        return t - 1, cell.cs_prev_grad, new_dh, kept.write(part.place(t), cell.dicfo)

    return body


def _array_of_all(frames: tf.Tensor, parts: Sequence[Part]) -> tf.TensorArray:
    """For every frame of every part, which may differ in size."""
    return tf.TensorArray(tf.float32, size=frames * len(parts), infer_shape=False)


def _concat(array: tf.TensorArray, written: Sequence[tf.TensorArray]) -> tf.Tensor:
    """The elements of `array`, of which each loop of `written` wrote its own, one behind the other."""
    flow = tf.add_n([part.flow for part in written])
    return tf.TensorArray(tf.float32, handle=array.handle, flow=flow, infer_shape=False).concat()
