"""Adam whose moments are spread over the towers' devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from deepspeech_training.parallel.devices import CPU
from deepspeech_training.parallel.gradients import GradientsAndVariables

tfv1 = tf.compat.v1


class AdamBase(tf.compat.v1.train.Optimizer):
    """What Adam (Kingma and Ba 2015, in the form before section 2.1) needs beside its moments.

    The decay powers `beta1_power` and `beta2_power` are variables on the CPU, as those of TensorFlow's Adam.
    """

    def __init__(self, learning_rate: Any, beta1: float, beta2: float, epsilon: float, name: str) -> None:
        super().__init__(use_locking=False, name=name)
        self._learning_rate = learning_rate
        self._betas = (beta1, beta2)
        self._epsilon = epsilon
        self._powers: list[tf.Variable] = []

    def _make_powers(self) -> None:
        if not self._powers:
            names = ('beta1_power', 'beta2_power')
            with tf.init_scope(), tf.device(CPU):
                self._powers = [variable(n, [], beta) for n, beta in zip(names, self._betas, strict=True)]

    def _rate(self) -> tf.Tensor:
        """The learning rate times what makes up for moments that began at 0."""
        with tf.device(CPU):
            power1, power2 = (power.read_value() for power in self._powers)
            return self._learning_rate * tf.sqrt(1.0 - power2) / (1.0 - power1)

    def _change(self, gradient: tf.Tensor, moments: Sequence[tf.Variable], rate: tf.Tensor) -> tf.Tensor:
        """Updates the two `moments` of `gradient`; returns what to take from the parameters."""
        mean, square = moments
        # In float32, as TensorFlow's Adam: 1 - 0.999 is another number there.
        rest1, rest2 = (np.float32(1) - np.float32(beta) for beta in self._betas)
        new_mean = mean.assign_add((gradient - mean.read_value()) * rest1)
        new_square = square.assign_add((tf.square(gradient) - square.read_value()) * rest2)
        return rate * new_mean / (tf.sqrt(new_square) + self._epsilon)

    def _finish_update(self, updates: Sequence[tf.Operation], global_step: tf.Variable | None) -> tf.Operation:
        """Advances powers and step when everything is updated."""
        with tf.control_dependencies(updates), tf.device(CPU):
            advanced = [power.assign(power * beta).op for power, beta in zip(self._powers, self._betas, strict=True)]
            if global_step is not None:
                advanced.append(global_step.assign_add(1).op)
            return tf.group(*advanced)


class ShardedAdam(AdamBase):
    """Both moments of a parameter are on one of `devices`, which computes its change; parameters stay on the CPU.

    The largest parameters are dealt out first, each to the device that has the least so far. Variables have the
    names of TensorFlow's Adam: checkpoints are the same.
    """

    def __init__(
        self, learning_rate: Any, beta1: float, beta2: float, epsilon: float, devices: Sequence[str] = (CPU,)
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, 'Adam')
        self._devices = list(devices)
        self._moments: dict[str, tuple[tf.Variable, tf.Variable]] = {}

    def apply_gradients(
        self, grads_and_vars: GradientsAndVariables, global_step: tf.Variable | None = None, name: str | None = None
    ) -> tf.Operation:
        """One update."""
        self._make_powers()
        self._make_moments([variable for _, variable in grads_and_vars])
        rate = self._rate()
        updates = []
        for gradient, parameter in grads_and_vars:
            moments = self._moments[parameter.op.name]
            with tf.device(moments[0].device):
                change = self._change(gradient, moments, rate)
            with tf.device(CPU):
                updates.append(parameter.assign_sub(change).op)
        return self._finish_update(updates, global_step)

    def _make_moments(self, parameters: Sequence[tf.Variable]) -> None:
        new = [parameter for parameter in parameters if parameter.op.name not in self._moments]
        owners = deal_out([parameter.shape.num_elements() for parameter in new], len(self._devices))
        for parameter, owner in zip(new, owners, strict=True):
            with tf.init_scope(), tf.device(self._devices[owner]):
                name, shape = parameter.op.name, parameter.shape
                self._moments[name] = (variable(f'{name}/Adam', shape, 0.0), variable(f'{name}/Adam_1', shape, 0.0))


def moments_at_rest(parameters: Sequence[tf.Variable]) -> None:
    """Makes Adam's moments of `parameters` that are not trained, on the CPU.

    Nothing changes them. Checkpoints have them as those of all others, for runs in which these parameters are trained.
    """
    with tf.device(CPU):
        for parameter in parameters:
            for suffix in ('', '_1'):
                variable(f'{parameter.op.name}/Adam{suffix}', parameter.shape, 0.0)


def deal_out(sizes: Sequence[int], owners: int) -> list[int]:
    """The owner of each size, so that all have about the same: the largest first, to who has the least."""
    loads = [0] * owners
    chosen = [0] * len(sizes)
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        chosen[place] = loads.index(min(loads))
        loads[chosen[place]] += sizes[place]
    return chosen


def variable(name: str, shape: Any, value: float, collections: Sequence[str] | None = None) -> tf.Variable:
    """A float32 variable that is not trained, where the device scope says."""
    with tfv1.variable_scope(tfv1.get_variable_scope(), reuse=False, auxiliary_name_scope=False):
        return tfv1.get_variable(
            name,
            shape=shape,
            initializer=tfv1.constant_initializer(value),
            trainable=False,
            use_resource=True,
            collections=collections,
        )
