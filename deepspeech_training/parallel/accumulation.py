"""Gradients of several batches added up before one update."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from deepspeech_training.parallel.towers import TowerGradients


class Sums(NamedTuple):
    """The sums of one tower: the operations that make them 0 and add a batch, and pairs of sum and variable."""

    reset: tf.Operation
    add: tf.Operation
    gradients: TowerGradients


def accumulate(gradients: TowerGradients, device: str, tower: int) -> Sums:
    """Variables on `device` that hold the sums of a tower's `gradients`.

    Summing where the gradients are computed keeps the parameters' size of data from travelling with every batch.
    The variables are local ones: checkpoints do not have them. A variable without a gradient has no sum (None).
    """
    pairs: TowerGradients = []
    resets: list[tf.Operation] = []
    adds: list[tf.Operation] = []
    for position, (gradient, variable) in enumerate(gradients):
        if gradient is None:
            pairs.append((None, variable))
            continue
        with tf.device(device):
            total = local_variable(f'accumulated/tower_{tower}/{position}', variable.shape, variable.dtype.base_dtype)
            resets.append(total.assign(tf.zeros(variable.shape, total.dtype)).op)
            adds.append(total.assign_add(tf.convert_to_tensor(gradient)).op)
            pairs.append((total.read_value(), variable))
    with tf.compat.v1.name_scope(f'accumulation/tower_{tower}'):
        return Sums(tf.group(*resets, name='reset'), tf.group(*adds, name='add'), pairs)


def local_variable(name: str, shape: tf.TensorShape, dtype: tf.DType) -> tf.Variable:
    """A variable that checkpoints do not have. Its initial value is never used: it is set before it is read."""
    return tf.compat.v1.get_variable(
        name,
        shape=shape,
        dtype=dtype,
        initializer=tf.compat.v1.zeros_initializer(),
        trainable=False,
        collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
        use_resource=True,
    )
