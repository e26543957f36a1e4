"""Adam over the processes of a job, each of which has the moments of an equal part of all parameters.

The gradients, taken as one long vector, are reduced and scattered: each process gets the sum of its part. It computes
the change of its part, and the parts are gathered again. What travels is as much as when every process gets all sums;
the moments need one over the number of processes of the memory (Rajbhandari et al. 2020, first stage).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from deepspeech_training.parallel.collective import Collective
from deepspeech_training.parallel.devices import CPU
from deepspeech_training.parallel.gradients import GradientsAndVariables
from deepspeech_training.parallel.sharded_adam import AdamBase, variable

tfv1 = tf.compat.v1


class Sharding(Collective):
    """Sums gradients so that each process has those of its part only; everything else as `collective` does."""

    def __init__(self, collective: Collective) -> None:
        self._collective = collective
        self.parameters: list[tf.Variable] = []

    @property
    def size(self) -> int:
        return self._collective.size

    @property
    def rank(self) -> int:
        return self._collective.rank

    @property
    def part(self) -> int:
        """How many numbers each process's part has; the last one is filled up with zeros."""
        return -(-sum(self.sizes) // self.size)

    @property
    def sizes(self) -> list[int]:
        """Numbers of each parameter."""
        return [parameter.shape.num_elements() for parameter in self.parameters]

    def sum(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        return self._collective.sum(tensor, name)

    def all_gather(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        return self._collective.all_gather(tensor, name)

    def broadcast(self, tensor: tf.Tensor, source: int, name: str) -> tf.Tensor:
        return self._collective.broadcast(tensor, source, name)

    def reduce_scatter(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        return self._collective.reduce_scatter(tensor, name)

    def sum_gradients(self, gradients: GradientsAndVariables) -> GradientsAndVariables:
        """One pair: the sums of this process's part, float32 `[part]`, and no variable."""
        self.parameters = [parameter for _, parameter in gradients]
        with tf.device(CPU), tf.compat.v1.name_scope('shard_gradients'):
            flat = self.flatten([gradient for gradient, _ in gradients])
            return [(self.reduce_scatter(flat, 'gradients'), None)]

    def norm(self, gradients: GradientsAndVariables, factor: tf.Tensor | None) -> tf.Tensor:
        with tf.device(CPU), tf.compat.v1.name_scope('gradient_norm'):
            squares = self.sum(tf.reduce_sum(tf.square(gradients[0][0])), 'squares')
            norm = tf.sqrt(squares)
            return norm if factor is None else norm * factor

    def shown(self, gradients: GradientsAndVariables) -> GradientsAndVariables:
        """No process has all gradients."""
        return [(None, parameter) for parameter in self.parameters]

    def flatten(self, tensors: list[tf.Tensor]) -> tf.Tensor:
        """Float32 `[part * size]`."""
        padding = tf.zeros([self.part * self.size - sum(self.sizes)])
        return tf.concat([*(tf.reshape(tensor, [-1]) for tensor in tensors), padding], axis=0)


class FlatAdam(AdamBase):
    """Adam on the gradients that `Sharding` gives."""

    def __init__(
        self, learning_rate: Any, beta1: float, beta2: float, epsilon: float, sharding: Sharding | None = None
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, 'Adam')
        self._sharding = sharding or Sharding(Collective())
        self.slots: FlatSlots | None = None

    def apply_gradients(
        self, grads_and_vars: GradientsAndVariables, global_step: tf.Variable | None = None, name: str | None = None
    ) -> tf.Operation:
        """One update, on all processes or on none."""
        ((gradient, _),) = grads_and_vars
        sharding = self._sharding
        self._make_powers()
        if self.slots is None:
            with tf.init_scope(), tf.device(CPU):
                self.slots = FlatSlots(sharding)
        with tf.device(CPU):
            change = self._change(gradient, self.slots.moments, self._rate())
            changes = sharding.all_gather(change, 'changes')[: sum(sharding.sizes)]
            parts = tf.split(changes, sharding.sizes)
            updates = [
                parameter.assign_sub(tf.reshape(part, parameter.shape)).op
                for parameter, part in zip(sharding.parameters, parts, strict=True)
            ]
        return self._finish_update(updates, global_step)


class FlatSlots:
    """The moments of all processes, as checkpoints have them: by parameter, as `NAME/Adam` and `NAME/Adam_1`.

    `read` and `share` have to be called by all processes at the same time.
    """

    def __init__(self, sharding: Sharding) -> None:
        self._sharding = sharding
        self._names = [parameter.op.name for parameter in sharding.parameters]
        self._shapes = [parameter.shape.as_list() for parameter in sharding.parameters]
        local = [tfv1.GraphKeys.LOCAL_VARIABLES]
        self.moments = [variable(f'flat/Adam{suffix}', [sharding.part], 0.0, local) for suffix in ('', '_1')]
        with tf.compat.v1.name_scope('flat_slots'):
            self._gathered = [sharding.all_gather(m.read_value(), f'moments_{i}') for i, m in enumerate(self.moments)]
            self._given = tfv1.placeholder(tf.float32, [sharding.part * sharding.size])
            self._sources: dict[int, list[tf.Operation]] = {
                source: self._shared_from(source) for source in range(sharding.size)
            }
            self._initializers = [moment.initializer for moment in self.moments]
        self._pending = [np.zeros(0, np.float32)] * 2

    def _shared_from(self, source: int) -> list[tf.Operation]:
        own = slice(self._sharding.rank * self._sharding.part, (self._sharding.rank + 1) * self._sharding.part)
        shared = [self._sharding.broadcast(self._given, source, f'moments_{i}_of_{source}') for i in range(2)]
        return [moment.assign(values[own]).op for moment, values in zip(self.moments, shared, strict=True)]

    @property
    def shapes(self) -> dict[str, list[int]]:
        """Of each moment of each parameter."""
        named = zip(self._names, self._shapes, strict=True)
        return {f'{name}/Adam{suffix}': shape for name, shape in named for suffix in ('', '_1')}

    def initialize(self, session: tf.compat.v1.Session) -> None:
        """Moments of 0."""
        session.run(self._initializers)
        self._pending = [np.zeros(0, np.float32)] * 2

    def read(self, session: tf.compat.v1.Session) -> dict[str, np.ndarray]:
        """The moments of all processes."""
        values = {}
        for suffix, flat in zip(('', '_1'), session.run(self._gathered), strict=True):
            parts = np.split(flat, np.cumsum(self._sharding.sizes))
            for name, shape, part in zip(self._names, self._shapes, parts[:-1], strict=True):
                values[f'{name}/Adam{suffix}'] = part.reshape(shape)
        return values

    def write(self, values: Mapping[str, np.ndarray]) -> None:
        """Keeps moments, those that `values` does not have being 0, for the next `share`."""
        self._pending = [
            np.concatenate(
                [
                    np.asarray(values.get(f'{name}/Adam{suffix}', np.zeros(shape)), np.float32).reshape(-1)
                    for name, shape in zip(self._names, self._shapes, strict=True)
                ]
            )
            for suffix in ('', '_1')
        ]

    def share(self, session: tf.compat.v1.Session, source: int) -> None:
        """Gives every process its part of what the process `source` has been given by `write`."""
        size = self._sharding.part * self._sharding.size
        for pending, operation in zip(self._pending, self._sources[source], strict=True):
            padded = np.zeros(size, np.float32)
            padded[: len(pending)] = pending
            session.run(operation, {self._given: padded})
