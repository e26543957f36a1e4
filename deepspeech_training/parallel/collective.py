"""Sums over the processes of a job, inside the graph."""

from __future__ import annotations

import tensorflow as tf

from deepspeech_training.parallel.gradients import GradientsAndVariables


class Collective:
    """The job of one process: everything is summed up already. Jobs of several processes override both."""

    def sum(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """`tensor` added up over all processes; `name` is the same, and used once a graph, in each of them."""
        return tensor

    def sum_gradients(self, gradients: GradientsAndVariables) -> GradientsAndVariables:
        """The same for gradients."""
        return gradients
