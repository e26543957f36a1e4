"""The feed-forward layers of the acoustic model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from deepspeech_training.config import N_CONTEXT, N_INPUT, ModelConfig
from deepspeech_training.model.variables import derived_seed, uniform_for_relu, variable_on_cpu

tfv1 = tf.compat.v1

WINDOW = 2 * N_CONTEXT + 1
"""Frames that layer 1 sees at once."""

TYPICAL_MFCCS = (-22.0, 11.0, -7.0, 4.0, -1.0, -3.0, 1.4, -3.0, -0.4, 0.0, -2.0)
"""Means of the first coefficients over recordings of speech, in round numbers; those of the others are near 0."""

NORM_EPSILON = 1e-12
"""Added to the variance in layer normalization."""

_PHILOX = 1  # TensorFlow's number for this generator


def weights_and_bias(name: str, n_inputs: int, units: int, seed: int | None) -> tuple[tf.Variable, tf.Variable]:
    """The variables `NAME/weights` `[n_inputs, units]` and `NAME/bias` `[units]`.

    The bias starts at 0, but for layer 1, where it takes away what the weights make of typical MFCCs: these are far
    from 0 (the first coefficient above all), and a unit would start as always or as never active.
    """

    drawn: list[tf.Tensor] = []  # not to be had from the variable where a strategy hands out its value instead

    def draw(shape: Sequence[int], dtype: tf.DType, **_: Any) -> tf.Tensor:
        drawn.append(uniform_for_relu(derived_seed(seed, f'{name}/weights'))(shape, dtype))
        return drawn[0]

    def against_mean(shape: Sequence[int], dtype: tf.DType, **_: Any) -> tf.Tensor:
        return -tf.linalg.matvec(drawn[0], tf.tile(typical, [WINDOW]), transpose_a=True)

    with tfv1.variable_scope(name, reuse=tfv1.AUTO_REUSE):
        weights = variable_on_cpu('weights', [n_inputs, units], draw)
        typical = tf.constant(TYPICAL_MFCCS + (0.0,) * (N_INPUT - len(TYPICAL_MFCCS)))
        bias = variable_on_cpu('bias', [units], against_mean if name == 'layer_1' else tfv1.zeros_initializer())
    return weights, bias


def windows(features: tf.Tensor) -> tf.Tensor:
    """Each frame with its context, zeros before the first and behind the last frame.

    `features`: `[batch, frames, N_INPUT]`. Returns `[frames * batch, WINDOW * N_INPUT]`: a window's frames one after
    the other, as layer 1 wants them.
    """
    by_frame = tf.pad(tf.transpose(features, [1, 0, 2]), [[N_CONTEXT, N_CONTEXT], [0, 0], [0, 0]])
    frames = tf.shape(features)[1]
    shifted = [by_frame[shift : shift + frames] for shift in range(WINDOW)]
    return tf.reshape(tf.concat(shifted, axis=2), [-1, WINDOW * N_INPUT])


def linear(name: str, inputs: tf.Tensor, units: int, seed: int | None) -> tf.Tensor:
    """`inputs` `[rows, n]` times weights plus bias: float32 `[rows, units]`, computed in float32."""
    weights, bias = weights_and_bias(name, int(inputs.shape[-1]), units, seed)
    return tf.nn.bias_add(tf.matmul(tf.cast(inputs, tf.float32), weights), bias)


@dataclass(frozen=True)
class Dropout:
    """Where dropout's random numbers come from: a seed, and the number of the batch (int64 scalar) if there is one."""

    seed: int | None
    stream: tf.Tensor | None = None


def dense(name: str, inputs: tf.Tensor, model: ModelConfig, rate: float, drop: Dropout) -> tf.Tensor:
    """A layer: linear, ReLU clipped at `relu_clip`, layer normalization if asked for, dropout at `rate`.

    `inputs`: `[rows, n]`. Returns `[rows, n_hidden]` of `model.compute_type`, in which the products are computed;
    everything between the products is computed in float32, and so is what the variables get as gradients.
    """
    inputs = tf.cast(inputs, model.compute_type)
    weights, bias = weights_and_bias(name, int(inputs.shape[-1]), model.n_hidden, drop.seed)
    rows = tf.shape(inputs)[0]
    if model.layer_norm:
        clipped = _clipped_relu_layer(inputs, weights, bias, model.relu_clip, None, 1.0)
        normalized = layer_norm(name, tf.cast(clipped, tf.float32))
        return tf.cast(dropout(name, normalized, rate, drop), model.compute_type)
    if rate <= 0:
        return _clipped_relu_layer(inputs, weights, bias, model.relu_clip, None, 1.0)
    keep, scale = _keep_mask(name, rows * model.n_hidden, rate, drop)
    keep = tf.reshape(keep, [rows, model.n_hidden])
    return _clipped_relu_layer(inputs, weights, bias, model.relu_clip, keep, scale)


def _clipped_relu_layer(
    inputs: tf.Tensor, weights: tf.Variable, bias: tf.Variable, clip: float, keep: tf.Tensor | None, scale: float
) -> tf.Tensor:
    """`min(relu(inputs * weights + bias), clip) * scale` where `keep`, else 0; of the type of `inputs`.

    The gradient needs only the result: it passes where that is neither 0 (negative, or dropped) nor at its greatest
    (clipped). TensorFlow's own would go over the frames once for each of the operations.
    """
    greatest = inputs.dtype.as_numpy_dtype(np.float32(clip) * np.float32(scale))

    @tf.custom_gradient
    def layer(
        inputs: tf.Tensor, weights: tf.Tensor, bias: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
        weights = tf.cast(weights, inputs.dtype)
        product = tf.cast(tf.matmul(inputs, weights), tf.float32)
        outputs = tf.minimum(tf.nn.relu(tf.nn.bias_add(product, bias)), clip)
        if keep is not None:
            outputs = tf.where(keep, outputs * scale, tf.zeros([]))
        outputs = tf.cast(outputs, inputs.dtype)

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            passes = tf.logical_and(tf.greater(outputs, 0), tf.less(outputs, greatest))
            upstream = tf.cast(upstream, tf.float32)
            inner = tf.where(passes, upstream * scale if keep is not None else upstream, tf.zeros([]))
            factor = tf.cast(inner, inputs.dtype)
            dweights = tf.cast(tf.matmul(inputs, factor, transpose_a=True), tf.float32)
            with tf.control_dependencies([dweights]):  # side by side they would fight for the caches
                dinputs = tf.matmul(factor, weights, transpose_b=True)
            return [dinputs, dweights, tf.raw_ops.BiasAddGrad(out_backprop=inner)]

        return outputs, gradient

    return layer(inputs, tf.identity(weights), tf.identity(bias))


def layer_norm(name: str, inputs: tf.Tensor) -> tf.Tensor:
    """Mean 0, variance 1 over the last axis, then times `NAME/LayerNorm/gamma`, plus `beta` (Ba et al. 2016)."""
    units = int(inputs.shape[-1])
    with tfv1.variable_scope(f'{name}/LayerNorm', reuse=tfv1.AUTO_REUSE):
        beta = variable_on_cpu('beta', [units], tfv1.zeros_initializer())
        gamma = variable_on_cpu('gamma', [units], tfv1.ones_initializer())
    mean, variance = tf.nn.moments(inputs, axes=[-1], keepdims=True)
    return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, NORM_EPSILON)


def dropout(name: str, inputs: tf.Tensor, rate: float, drop: Dropout) -> tf.Tensor:
    """Zeroes a share `rate` of `inputs`, and scales up the rest; nothing at rate 0.

    Layers of different `name` draw different numbers.
    """
    if rate <= 0:
        return inputs
    keep, scale = _keep_mask(name, tf.size(inputs), rate, drop)
    return tf.where(tf.reshape(keep, tf.shape(inputs)), inputs * scale, tf.zeros([]))


def _keep_mask(name: str, size: tf.Tensor, rate: float, drop: Dropout) -> tuple[tf.Tensor, float]:
    """A bool mask `[size]` that is true with probability 1 - `rate`, and one over that probability.

    It depends on the seed, the layer and the batch alone, so that a resumed run draws what the other would have.
    Four decisions are taken from one 64-bit random number, so `rate` is rounded to a multiple of 2**-16: random
    numbers would otherwise take longer than the rest of the layer's pointwise work.
    """
    own = tf.constant(derived_seed(drop.seed or 0, f'{name}/dropout'), tf.int64)
    stream = tf.constant(0, tf.int64) if drop.stream is None else drop.stream
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=tf.stack([own, stream]))
    bits = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[size // 4 + 1], key=key, counter=counter, alg=_PHILOX, dtype=tf.uint64
    )
    numbers = tf.reshape(tf.bitcast(bits, tf.int16), [-1])[:size]
    dropped = min(round(rate * 2**16), 2**16 - 1)
    return tf.greater_equal(numbers, tf.constant(dropped - 2**15, tf.int16)), 1 / (1 - dropped / 2**16)
