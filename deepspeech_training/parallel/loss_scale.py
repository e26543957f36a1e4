"""Dynamic loss scaling, for gradients that are computed in float16 (Micikevicius et al. 2018).

Many derivatives are so small that float16 would round them to zero. So the backward pass starts from a number that is
larger by the scale, and the sums, which are float32, are divided by it. The scale is as large as the largest
derivatives allow: it is halved when they overflow, which skips the update, and doubled when they have not for long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from deepspeech_training.parallel.devices import CPU
from deepspeech_training.parallel.strategy import TowerOutput

INITIAL = 2.0**15
MINIMUM = 1.0
MAXIMUM = 2.0**24
"""A model whose derivatives are still small then needs no more."""

GOOD_UPDATES = 2000
"""Updates in a row after which the scale is doubled."""

COLLECTION = 'loss_scales'


class LossScale:
    """The scale of the updates of one graph that follow each other, on the CPU.

    It follows from the gradients after they are summed up over towers and processes: so all processes decide alike.

    What it remembers is a local variable, which checkpoints do not have and no initializer needs to be run for: before
    the first update of a session the scale is `INITIAL`. `read_states` and `load_states` carry it to a later run.
    """

    value: tf.Tensor
    """Float32 scalar, the scale of this update: a power of 2, so that scaling rounds nothing."""

    state: tf.Tensor
    """Float32 `[2]`: the scale, and how many updates in a row were good with it."""

    def __init__(self) -> None:
        start = tf.constant([INITIAL, 0.0])
        with tf.device(CPU), tf.compat.v1.name_scope('loss_scale'):
            self._variable = tf.compat.v1.Variable(
                start,
                trainable=False,
                collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
                use_resource=True,
                name='state',
            )
            self.state = tf.cond(self._variable.is_initialized(), self._variable.read_value, lambda: start)
            self.value, self._good = tf.unstack(self.state)
        tf.compat.v1.add_to_collection(COLLECTION, self)

    def overflowed(self, norm: tf.Tensor) -> tf.Tensor:
        """Bool scalar: whether a smaller scale may make the gradients finite, whose norm is `norm`."""
        with tf.device(CPU), tf.compat.v1.name_scope('loss_scale'):
            return tf.logical_not(tf.math.is_finite(norm)) & tf.greater(self.value, MINIMUM)

    def after(self, applied: tf.Tensor, overflowed: tf.Tensor) -> tf.Operation:
        """Remembers the scale of the next update; both are bool scalars."""
        with tf.device(CPU), tf.compat.v1.name_scope('loss_scale'):
            good = tf.where(applied, self._good + 1, 0.0)
            grows = tf.greater_equal(good, GOOD_UPDATES)
            grown = tf.where(grows, tf.minimum(self.value * 2, MAXIMUM), self.value)
            scale = tf.where(overflowed, tf.maximum(self.value / 2, MINIMUM), grown)
            return self._variable.assign(tf.stack([scale, tf.where(grows, 0.0, good)])).op

    def load(self, state: np.ndarray, session: tf.compat.v1.Session) -> None:
        """Goes on from what `state` was in another session."""
        self._variable.load(state, session)


def loss_scales() -> list[LossScale]:
    """Those of the default graph, in the order in which they were made; asynchronous towers have one each."""
    scales: list[LossScale] = tf.compat.v1.get_collection(COLLECTION)
    return scales


def read_states(scales: Sequence[LossScale], session: tf.compat.v1.Session) -> list[list[float]]:
    """The `state` of each, as JSON has it."""
    return [state.tolist() for state in session.run([scale.state for scale in scales])]


def load_states(states: Any, scales: Sequence[LossScale], session: tf.compat.v1.Session) -> None:
    """Goes on from what `read_states` gave in another run; begins anew if that had other towers, or no scale."""
    if not isinstance(states, list) or len(states) != len(scales):
        return
    for state, scale in zip(states, scales, strict=True):
        scale.load(np.array(state, np.float32), session)


def needed_loss_scale(outputs: Sequence[TowerOutput]) -> LossScale | None:
    """A new loss scale when the towers ask for it, else None."""
    return LossScale() if any(output.needs_loss_scale for output in outputs) else None


def scaled(weight: tf.Tensor, scale: LossScale | None) -> tf.Tensor:
    """The `weight` that backward passes start from, times the scale if there is one."""
    if scale is None:
        return weight
    with tf.device(CPU), tf.compat.v1.name_scope('loss_scale'):
        return weight * scale.value
