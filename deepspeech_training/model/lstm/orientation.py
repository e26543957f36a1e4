"""Two ways to lay out one frame of the hoisted LSTM, for two kinds of CPU.

As rows a frame is `[batch, n]` and stands left of the weights; as columns it is `[n, batch]` and stands right of them.
A batch is narrow, and TensorFlow's product is not equally fast for both. With AVX2 `[4n, n] x [n, batch]` takes half
the time of `[batch, n] x [n, 4n]`. With AVX-512 rows are at least as fast and save the transpositions, as long as the
weights stay in the caches. `doc/performance.md` has the figures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

SMALL = 2**23
"""Bytes of recurrent weights up to which rows are faster on a CPU with AVX-512."""

LARGE = 2**25
"""Bytes of recurrent weights above which four products of a quarter each are faster than one."""


class Part(NamedTuple):
    """Utterances of a batch that one loop computes."""

    number: int
    parts: int
    first: tf.Tensor  # int32 scalar
    count: tf.Tensor  # int32 scalar

    def place(self, t: tf.Tensor) -> tf.Tensor:
        """Where frame `t` of this part stands among those of all parts."""
        return t * self.parts + self.number


class Orientation(ABC):
    """How a frame of `n` units is laid out, and the products with it.

    Where `rows` are mentioned they are all frames of a batch, `[frames * batch, ...]`, whatever the orientation.
    Products are computed in the type of weights or rows; states, gates and derivatives by them are float32.
    """

    gate_axis: int
    """The axis of a frame along which the gates follow each other; utterances follow along the other one."""

    parts: int
    """In how many parts a batch is trained: their loops run side by side, on a thread each.

    A thread does not wait for the others after each product, nor they for its pointwise work. It pays as long as the
    caches have the weights for all of them.
    """

    def split(self, state: tf.Tensor, parts: Sequence[Part]) -> list[tf.Tensor]:
        """The frame `state` `[batch, n]` or `[n, batch]` by parts."""
        if len(parts) == 1:
            return [state]
        return list(tf.split(state, [part.count for part in parts], axis=1 - self.gate_axis, num=len(parts)))

    def join(self, states: Sequence[tf.Tensor]) -> tf.Tensor:
        """The opposite of `split`."""
        return tf.concat(states, axis=1 - self.gate_axis)

    @abstractmethod
    def turn(self, states: tf.Tensor) -> tf.Tensor:
        """`[..., batch, n]` to this layout, or back."""

    @abstractmethod
    def project(self, rows: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """All frames' product of `rows` `[frames * batch, k]` and `weights` `[k, 4n]`, of their type."""

    @abstractmethod
    def heights(self, parts: Sequence[Part], n: int) -> tf.Tensor:
        """Of each part's frame of n units, the length of the first axis."""

    @abstractmethod
    def frame(self, projected: tf.Tensor, t: tf.Tensor, batch: tf.Tensor, part: Part) -> tf.Tensor:
        """Frame `t` of what `project` gave for a whole `batch`: all gates of a part."""

    @abstractmethod
    def forward_weights(self, recurrent: tf.Tensor) -> list[tf.Tensor]:
        """What `forward` wants of the recurrent weights `[n, 4n]`; made once, outside the loop."""

    @abstractmethod
    def forward(self, h: tf.Tensor, weights: list[tf.Tensor]) -> tf.Tensor:
        """All gates of one frame from the outputs of the one before."""

    @abstractmethod
    def backward_weights(self, recurrent: tf.Tensor) -> list[tf.Tensor]:
        """What `backward` wants of the recurrent weights `[n, 4n]`; made once, outside the loop."""

    @abstractmethod
    def backward(self, dgates: tf.Tensor, weights: list[tf.Tensor]) -> tf.Tensor:
        """The derivatives by the outputs of the frame before, from `LSTMBlockCellGrad`'s `dicfo`."""

    @abstractmethod
    def gradients(
        self, dgates: tf.Tensor, rows: tf.Tensor, from_inputs: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Derivatives by inputs `[frames * batch, n]`, by the kernel `[2n, 4n]` and by the bias `[4n]`.

        `dgates`: `dicfo` of all frames, one after the other. `rows`: inputs beside previous outputs, 2n wide.
        `from_inputs`: the inputs' part of the kernel, `[n, 4n]`. The first result has the type of `rows`.
        """


class Rows(Orientation):
    """A frame is `[batch, n]`."""

    gate_axis = 1
    parts = 2

    def turn(self, states: tf.Tensor) -> tf.Tensor:
        return states

    def project(self, rows: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return tf.matmul(rows, weights)

    def heights(self, parts: Sequence[Part], n: int) -> tf.Tensor:
        return tf.stack([part.count for part in parts])

    def frame(self, projected: tf.Tensor, t: tf.Tensor, batch: tf.Tensor, part: Part) -> tf.Tensor:
        return tf.slice(projected, [t * batch + part.first, 0], [part.count, projected.shape[1]])

    def forward_weights(self, recurrent: tf.Tensor) -> list[tf.Tensor]:
        return [recurrent]

    def forward(self, h: tf.Tensor, weights: list[tf.Tensor]) -> tf.Tensor:
        return tf.cast(tf.matmul(tf.cast(h, weights[0].dtype), weights[0]), tf.float32)

    def backward_weights(self, recurrent: tf.Tensor) -> list[tf.Tensor]:
        return [tf.transpose(recurrent)]  # a factor transposed inside the loop is 3 to 5 times slower

    def backward(self, dgates: tf.Tensor, weights: list[tf.Tensor]) -> tf.Tensor:
        return tf.cast(tf.matmul(tf.cast(dgates, weights[0].dtype), weights[0]), tf.float32)

    def gradients(
        self, dgates: tf.Tensor, rows: tf.Tensor, from_inputs: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        dgates = tf.reshape(dgates, [-1, from_inputs.shape[1]])
        factor = tf.cast(dgates, rows.dtype)
        dkernel = tf.cast(tf.matmul(rows, factor, transpose_a=True), tf.float32)
        with tf.control_dependencies([dkernel]):  # side by side they would fight for the caches
            dinputs = tf.matmul(factor, tf.transpose(tf.cast(from_inputs, rows.dtype)))
        return dinputs, dkernel, tf.raw_ops.BiasAddGrad(out_backprop=dgates)


class Columns(Orientation):
    """A frame is `[n, batch]`.

    To `LSTMBlockCellGrad` the units are then a batch and the batch is units. It puts the four gates side by side,
    `[n, 4 * batch]`; read as `[4n, batch]` this has the four gates of a unit next to each other.
    """

    gate_axis = 0
    parts = 1

    def turn(self, states: tf.Tensor) -> tf.Tensor:
        return tf.linalg.matrix_transpose(states)

    def project(self, rows: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return tf.matmul(weights, rows, transpose_a=True, transpose_b=True)

    def heights(self, parts: Sequence[Part], n: int) -> tf.Tensor:
        return tf.fill([len(parts)], n)

    def frame(self, projected: tf.Tensor, t: tf.Tensor, batch: tf.Tensor, part: Part) -> tf.Tensor:
        return tf.slice(projected, [0, t * batch + part.first], [projected.shape[0], part.count])

    def forward_weights(self, recurrent: tf.Tensor) -> list[tf.Tensor]:
        return tf.split(tf.transpose(recurrent), 4 if recurrent_bytes(int(recurrent.shape[0])) > LARGE else 1)

    def forward(self, h: tf.Tensor, weights: list[tf.Tensor]) -> tf.Tensor:
        h = tf.cast(h, weights[0].dtype)
        return tf.concat([tf.cast(tf.matmul(part, h), tf.float32) for part in weights], axis=0)

    def backward_weights(self, recurrent: tf.Tensor) -> list[tf.Tensor]:
        n = int(recurrent.shape[0])
        by_unit = tf.transpose(tf.reshape(recurrent, [n, 4, n]), [0, 2, 1])
        return [tf.reshape(by_unit, [n, 4 * n])]

    def backward(self, dgates: tf.Tensor, weights: list[tf.Tensor]) -> tf.Tensor:
        factor = tf.cast(tf.reshape(dgates, [weights[0].shape[1], -1]), weights[0].dtype)
        return tf.cast(tf.matmul(weights[0], factor), tf.float32)

    def gradients(
        self, dgates: tf.Tensor, rows: tf.Tensor, from_inputs: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        n = int(from_inputs.shape[0])
        frames = tf.shape(dgates)[0]
        dgates = tf.transpose(tf.reshape(dgates, [frames, n, 4, -1]), [2, 1, 0, 3])
        dgates = tf.reshape(dgates, [4 * n, -1])
        factor = tf.cast(dgates, rows.dtype)
        dkernel = tf.cast(tf.matmul(rows, factor, transpose_a=True, transpose_b=True), tf.float32)
        with tf.control_dependencies([dkernel]):  # side by side they would fight for the caches
            dinputs = tf.matmul(factor, tf.cast(from_inputs, rows.dtype), transpose_a=True, transpose_b=True)
        return dinputs, dkernel, tf.reduce_sum(dgates, axis=1)


def choose_orientation(n_hidden: int) -> Orientation:
    """Rows for a small model on a CPU with AVX-512, else columns."""
    cpuinfo = Path('/proc/cpuinfo')
    has_avx512 = cpuinfo.exists() and ' avx512f ' in cpuinfo.read_text(encoding='ascii', errors='replace')
    return Rows() if has_avx512 and recurrent_bytes(n_hidden) <= SMALL else Columns()


def recurrent_bytes(n_hidden: int) -> int:
    """Size of the recurrent weights `[n_hidden, 4 * n_hidden]`."""
    return 4 * n_hidden * 4 * n_hidden


def parts_of(batch: tf.Tensor, parts: int) -> list[Part]:
    """`batch` utterances in equal parts, the later ones larger by one where that does not come out even."""
    starts = [batch * number // parts for number in range(parts + 1)]
    return [Part(number, parts, starts[number], starts[number + 1] - starts[number]) for number in range(parts)]
