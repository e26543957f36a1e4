"""The variables of a graph as NumPy arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import tensorflow as tf


class GraphVariables:
    """Reads and sets the global variables of the default graph, by the names they have in checkpoints.

    Made after all variables, optimizer slots included, and before the graph is finalized. A strategy that keeps
    optimizer slots elsewhere hands out a subclass which knows where.
    """

    def __init__(self) -> None:
        self._variables = {v.op.name: v for v in tf.compat.v1.global_variables()}
        self.weights = {v.op.name for v in tf.compat.v1.trainable_variables()}
        self._initializer = tf.compat.v1.global_variables_initializer()
        self._given: dict[str, tf.Tensor] = {}
        self._assign: dict[str, tf.Operation] = {}
        with tf.compat.v1.name_scope('restore'):
            for name, variable in self._variables.items():
                with tf.device('/cpu:0'):
                    self._given[name] = tf.compat.v1.placeholder(variable.dtype.base_dtype, variable.shape)
                self._assign[name] = variable.assign(self._given[name]).op

    @property
    def shapes(self) -> dict[str, list[int]]:
        """The shape of each variable."""
        return {name: variable.shape.as_list() for name, variable in self._variables.items()}

    def initialize(self, session: tf.compat.v1.Session) -> None:
        """Gives all variables their first values."""
        session.run(self._initializer)

    def read(self, session: tf.compat.v1.Session, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
        """The values of the variables, or of those that `names` has."""
        wanted = {name: v for name, v in self._variables.items() if names is None or name in names}
        values: dict[str, np.ndarray] = session.run(wanted)
        return values

    def write(self, session: tf.compat.v1.Session, values: Mapping[str, np.ndarray]) -> None:
        """Sets the variables that `values` names."""
        session.run(
            [self._assign[name] for name in values], {self._given[name]: value for name, value in values.items()}
        )
