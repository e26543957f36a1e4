"""The feed-forward layers of the acoustic model."""

from __future__ import annotations

import tensorflow as tf

from deepspeech_training.config import N_CONTEXT, N_INPUT, ModelConfig
from deepspeech_training.model.variables import derived_seed, uniform_fan_avg, variable_on_cpu

tfv1 = tf.compat.v1

WINDOW = 2 * N_CONTEXT + 1
"""Frames that layer 1 sees at once."""


def weights_and_bias(name: str, n_inputs: int, units: int, seed: int | None) -> tuple[tf.Variable, tf.Variable]:
    """The variables `NAME/weights` `[n_inputs, units]` and `NAME/bias` `[units]`."""
    with tfv1.variable_scope(name, reuse=tfv1.AUTO_REUSE):
        initializer = uniform_fan_avg(derived_seed(seed, f'{name}/weights'))
        weights = variable_on_cpu('weights', [n_inputs, units], initializer)
        bias = variable_on_cpu('bias', [units], tfv1.zeros_initializer())
    return weights, bias


def linear(name: str, inputs: tf.Tensor, units: int, seed: int | None) -> tf.Tensor:
    """`inputs` `[..., n]` times weights plus bias: `[..., units]`."""
    weights, bias = weights_and_bias(name, int(inputs.shape[-1]), units, seed)
    return tf.nn.bias_add(tf.matmul(inputs, weights), bias)


def windowed_linear(name: str, features: tf.Tensor, units: int, seed: int | None) -> tf.Tensor:
    """The linear part of layer 1: each frame with its context, zeros before the first and behind the last frame.

    `features`: `[batch, frames, N_INPUT]`. Returns `[frames, batch, units]`.
    The weights `[WINDOW * N_INPUT, units]` (a window's frames one after the other) are the filters of a convolution
    over the frames, so no windows are built.
    """
    weights, bias = weights_and_bias(name, WINDOW * N_INPUT, units, seed)
    image = tf.expand_dims(tf.transpose(features, [1, 0, 2]), 0)  # frames as height, batch as width
    filters = tf.reshape(weights, [WINDOW, 1, N_INPUT, units])
    return tf.squeeze(tf.nn.bias_add(tf.nn.conv2d(image, filters, strides=1, padding='SAME'), bias), 0)


def activation(name: str, linear: tf.Tensor, model: ModelConfig) -> tf.Tensor:
    """ReLU clipped at `relu_clip`, then, if asked for, layer normalization over the features (Ba et al. 2016)."""
    clipped = tf.minimum(tf.nn.relu(linear), model.relu_clip)
    return layer_norm(name, clipped) if model.layer_norm else clipped


def layer_norm(name: str, inputs: tf.Tensor) -> tf.Tensor:
    """Mean 0 and variance 1 over the last axis, scaled and shifted by `NAME/LayerNorm/gamma` and `beta`."""
    units = int(inputs.shape[-1])
    with tfv1.variable_scope(f'{name}/LayerNorm', reuse=tfv1.AUTO_REUSE):
        beta = variable_on_cpu('beta', [units], tfv1.zeros_initializer())
        gamma = variable_on_cpu('gamma', [units], tfv1.ones_initializer())
    mean, variance = tf.nn.moments(inputs, axes=[-1], keepdims=True)
    return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)


def dropout(name: str, inputs: tf.Tensor, rate: float, seed: int | None) -> tf.Tensor:
    """Zeroes a share `rate` of `inputs`, and scales up the rest; nothing at rate 0.

    Different layers and name scopes (towers) draw different numbers from the same `seed`.
    """
    if rate <= 0:
        return inputs
    scope = tfv1.get_default_graph().get_name_scope()
    return tf.nn.dropout(inputs, rate=rate, seed=derived_seed(seed, f'{scope}/{name}/dropout'))
