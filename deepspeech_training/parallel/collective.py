"""What the processes of a job do together, inside the graph."""

from __future__ import annotations

import tensorflow as tf

from deepspeech_training.parallel.gradients import GradientsAndVariables, global_norm


class Collective:
    """The job of one process, in which nothing has to be done. Jobs of several processes override.

    Names are the same in each process, and used once a graph.
    """

    @property
    def size(self) -> int:
        """How many processes there are."""
        return 1

    @property
    def rank(self) -> int:
        """Which of them this one is."""
        return 0

    def sum(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """`tensor` added up over all processes."""
        return tensor

    def reduce_scatter(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """This process's part, one of `size` equal ones, of the sum of `tensor` `[n * size]` over all processes."""
        return tensor

    def all_gather(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """The `tensor` `[n]` of each process, one after the other: `[n * size]`."""
        return tensor

    def broadcast(self, tensor: tf.Tensor, source: int, name: str) -> tf.Tensor:
        """The `tensor` of the process `source`."""
        return tensor

    def sum_gradients(self, gradients: GradientsAndVariables) -> GradientsAndVariables:
        """Gradients added up over all processes; where moments are spread over them, this process's part of it."""
        return gradients

    def norm(self, gradients: GradientsAndVariables, factor: tf.Tensor | None) -> tf.Tensor:
        """Float32 scalar: the global norm of what `sum_gradients` gave, times `factor`."""
        return global_norm(gradients, factor)

    def shown(self, gradients: GradientsAndVariables) -> GradientsAndVariables:
        """What of it there is to be seen by parameter."""
        return gradients
