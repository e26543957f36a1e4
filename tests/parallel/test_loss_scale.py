from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.parallel.loss_scale import (
    GOOD_UPDATES,
    INITIAL,
    MAXIMUM,
    MINIMUM,
    LossScale,
    load_states,
    loss_scales,
    needed_loss_scale,
    read_states,
    scaled,
)
from deepspeech_training.parallel.strategy import TowerOutput

pytestmark = pytest.mark.usefixtures('graph')


class Updates:
    """A session in which updates of a given outcome happen."""

    def __init__(self) -> None:
        self.scale = LossScale()
        self._applied = tf.compat.v1.placeholder(tf.bool, [])
        self._overflowed = tf.compat.v1.placeholder(tf.bool, [])
        self._after = self.scale.after(self._applied, self._overflowed)
        self.session = tf.compat.v1.Session()

    def happen(self, *, applied: bool = False, overflowed: bool = False) -> list[float]:
        """One update; the state behind it."""
        self.session.run(self._after, {self._applied: applied, self._overflowed: overflowed})
        return self.state()

    def state(self) -> list[float]:
        values: list[float] = self.session.run(self.scale.state).tolist()
        return values

    def load(self, scale: float, good: float) -> None:
        self.scale.load(np.array([scale, good], np.float32), self.session)


def test_it_starts_without_an_initializer_and_is_in_no_checkpoint() -> None:
    updates = Updates()
    assert updates.state() == [2.0**15, 0.0]
    assert tf.compat.v1.global_variables() == []
    assert [variable.op.name for variable in tf.compat.v1.local_variables()] == ['loss_scale/state']


def test_an_overflow_halves_it_down_to_the_minimum() -> None:
    updates = Updates()
    assert updates.happen(overflowed=True) == [INITIAL / 2, 0.0]
    assert updates.happen(overflowed=True) == [INITIAL / 4, 0.0]
    updates.load(MINIMUM, 7)
    assert updates.happen(overflowed=True) == [MINIMUM, 0.0]


def test_good_updates_in_a_row_double_it_up_to_the_maximum() -> None:
    updates = Updates()
    assert updates.happen(applied=True) == [INITIAL, 1.0]
    updates.load(INITIAL, GOOD_UPDATES - 2)
    assert updates.happen(applied=True) == [INITIAL, GOOD_UPDATES - 1]
    assert updates.happen(applied=True) == [INITIAL * 2, 0.0]
    updates.load(INITIAL, GOOD_UPDATES - 1)
    assert updates.happen() == [INITIAL, 0.0]  # a loss was not finite: the row is broken, the scale stays
    updates.load(MAXIMUM, GOOD_UPDATES - 1)
    assert updates.happen(applied=True) == [MAXIMUM, 0.0]


def test_only_above_the_minimum_is_it_to_blame() -> None:
    updates = Updates()
    norm = tf.compat.v1.placeholder(tf.float32, [])
    overflowed = updates.scale.overflowed(norm)
    for value, scale, expected in (
        (1.0, INITIAL, False),
        (np.inf, INITIAL, True),
        (np.nan, 2 * MINIMUM, True),
        (np.inf, MINIMUM, False),
    ):
        updates.load(scale, 0)
        assert updates.session.run(overflowed, {norm: value}) == expected


def test_a_later_session_can_go_on() -> None:
    first = Updates()
    first.happen(overflowed=True)
    first.happen(applied=True)
    states = json.loads(json.dumps(read_states(loss_scales(), first.session)))
    with tf.compat.v1.Session() as session:
        of_other_runs: list[Any] = [None, [], states * 2]
        for of_another_run in of_other_runs:
            load_states(of_another_run, loss_scales(), session)
            assert session.run(first.scale.state).tolist() == [INITIAL, 0.0]
        load_states(states, loss_scales(), session)
        assert session.run(first.scale.state).tolist() == [INITIAL / 2, 1.0]


def test_only_towers_that_ask_for_it_get_one() -> None:
    zero = tf.constant(0.0)
    names = tf.constant([], tf.string)
    assert needed_loss_scale([TowerOutput(zero, zero, names)]) is None
    assert scaled(zero, None) is zero
    scale = needed_loss_scale([TowerOutput(zero, zero, names, needs_loss_scale=True)])
    with tf.compat.v1.Session() as session:
        assert session.run(scaled(tf.constant(0.25), scale)) == INITIAL / 4
