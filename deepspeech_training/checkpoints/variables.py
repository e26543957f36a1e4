"""The variables of a graph as NumPy arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

import numpy as np
import tensorflow as tf


class SpreadSlots(Protocol):
    """Moments of the optimizer of which each process has a part."""

    @property
    def shapes(self) -> dict[str, list[int]]: ...

    def initialize(self, session: tf.compat.v1.Session) -> None: ...

    def read(self, session: tf.compat.v1.Session) -> dict[str, np.ndarray]: ...

    def write(self, values: Mapping[str, np.ndarray]) -> None: ...


class GraphVariables:
    """Reads and sets the global variables of the default graph, by the names they have in checkpoints.

    Made after all variables, optimizer slots included, and before the graph is finalized. `slots` are moments of the
    optimizer that are spread over processes: then `read` has to be called in all of them. `frozen` are names of
    weights that are not trained.
    """

    def __init__(self, slots: SpreadSlots | None = None, frozen: Iterable[str] = ()) -> None:
        self._slots = slots
        self._variables = {v.op.name: v for v in tf.compat.v1.global_variables()}
        self.weights = {v.op.name for v in tf.compat.v1.trainable_variables()} | set(frozen)
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
        own = {name: variable.shape.as_list() for name, variable in self._variables.items()}
        return own if self._slots is None else own | self._slots.shapes

    @property
    def are_spread(self) -> bool:
        """Whether other processes have a part of them."""
        return self._slots is not None

    def initialize(self, session: tf.compat.v1.Session) -> None:
        """Gives all variables their first values."""
        session.run(self._initializer)
        if self._slots is not None:
            self._slots.initialize(session)

    def read(self, session: tf.compat.v1.Session, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
        """The values of the variables, or of those that `names` has."""
        wanted = {name: v for name, v in self._variables.items() if names is None or name in names}
        values: dict[str, np.ndarray] = session.run(wanted)
        if self._slots is not None:
            values |= {n: v for n, v in self._slots.read(session).items() if names is None or n in names}
        return values

    def write(self, session: tf.compat.v1.Session, values: Mapping[str, np.ndarray]) -> None:
        """Sets the variables that `values` names; moments that are spread get their values from `SpreadSlots.share`."""
        own = {name: value for name, value in values.items() if name in self._variables}
        session.run([self._assign[name] for name in own], {self._given[name]: value for name, value in own.items()})
        if self._slots is not None:
            self._slots.write({name: value for name, value in values.items() if name not in own})
