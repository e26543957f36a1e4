"""From the towers' gradients to one update of the parameters."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from deepspeech_training.parallel.devices import CPU

GradientsAndVariables = list[tuple[tf.Tensor, tf.Variable]]


def average_gradients(
    tower_gradients: Sequence[Sequence[tuple[tf.Tensor | tf.IndexedSlices | None, tf.Variable]]],
) -> GradientsAndVariables:
    """The gradients of the mean loss over the samples of all towers, on the CPU; here all towers wait.

    Each tower gives its pairs of gradient and variable in the same order. A tower's gradients are those of
    its loss sum divided by the number of samples of *all* towers (see `get_tower_results`): each sample,
    not each tower, has the same weight, adding up completes the mean, and no further pass over the
    parameters is needed. One tower's gradients are passed on as they are.

    A variable without a gradient in some towers gets the sum of the others, without any it is left out.
    Sparse gradients become dense. Raises `ValueError` when no variable has a gradient.
    """
    averages: GradientsAndVariables = []
    with tf.device(CPU), tf.compat.v1.name_scope('average_gradients'):
        for pairs in zip(*tower_gradients, strict=True):
            variable = pairs[0][1]
            if any(other is not variable for _, other in pairs):
                raise ValueError(f'The towers give their gradients in different orders: {[v.name for _, v in pairs]}')
            gradients = [tf.convert_to_tensor(gradient) for gradient, _ in pairs if gradient is not None]
            if gradients:
                averages.append((tf.add_n(gradients), variable))
    if not averages:
        raise ValueError('The loss depends on no trainable variable.')
    return averages


def global_norm(gradients: GradientsAndVariables, factor: tf.Tensor | None = None) -> tf.Tensor:
    """Float32 scalar: the Euclidean norm of all gradients taken as one vector, in one pass, on the CPU.

    With `factor`, a scalar of at least 0, that of the gradients times it.
    """
    with tf.device(CPU), tf.compat.v1.name_scope('gradient_norm'):
        halves = [tf.nn.l2_loss(gradient) for gradient, _ in gradients]  # half the sum of squares
        norm = tf.sqrt(2.0 * tf.add_n(halves))
        return norm if factor is None else norm * factor


def scale_gradients(gradients: GradientsAndVariables, factor: tf.Tensor | None) -> GradientsAndVariables:
    """All gradients times the scalar `factor`, on the CPU; as they are without one."""
    if factor is None:
        return gradients
    with tf.device(CPU), tf.compat.v1.name_scope('scale_gradients'):
        return [(gradient * factor, variable) for gradient, variable in gradients]


def clip_gradients(
    gradients: GradientsAndVariables, norm: tf.Tensor, limit: float, factor: tf.Tensor | None = None
) -> GradientsAndVariables:
    """Gradients scaled down to the global norm `limit` if theirs, `norm`, is above it (Pascanu et al. 2013).

    With `factor` they are multiplied by it in the same pass; `norm` is that of the result.
    """
    with tf.device(CPU), tf.compat.v1.name_scope('clip_gradients'):
        ratio = limit / tf.maximum(norm, limit)
        return scale_gradients(gradients, ratio if factor is None else ratio * factor)


def apply_gradients_if(
    condition: tf.Tensor,
    optimizer: tf.compat.v1.train.Optimizer,
    gradients: GradientsAndVariables,
    global_step: tf.Variable,
) -> tf.Operation:
    """One update by `optimizer` when the bool scalar `condition` holds.

    Otherwise parameters, the optimizer's own variables and `global_step` stay as they are.
    """

    def update() -> tf.Tensor:
        # The optimizer's variables are named by the name scope: DeepSpeech's checkpoints have them at the root.
        with tf.compat.v1.name_scope(None):
            applied = optimizer.apply_gradients(gradients, global_step=global_step)
        with tf.control_dependencies([applied]):
            return tf.constant(True)

    with tf.device(CPU), tf.compat.v1.name_scope('apply_gradients'):
        return tf.cond(condition, update, lambda: tf.constant(False)).op
