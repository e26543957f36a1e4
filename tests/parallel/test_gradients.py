from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.parallel.gradients import (
    apply_gradients_if,
    average_gradients,
    clip_gradients,
    global_norm,
    scale_gradients,
)

pytestmark = pytest.mark.usefixtures('graph')


def variable(name: str, values: object) -> tf.Variable:
    return tf.compat.v1.get_variable(name, initializer=tf.constant(values, tf.float32), use_resource=True)


def run(fetches: Any) -> Any:
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        return session.run(fetches)


def test_gradients_of_the_towers_add_up() -> None:
    v, w = variable('v', [0.0, 0.0]), variable('w', 0.0)
    averages = average_gradients(
        [
            [(tf.constant([1.0, 2.0]), v), (tf.constant(3.0), w)],
            [(tf.constant([10.0, 20.0]), v), (tf.constant(30.0), w)],
        ]
    )
    assert [each for _, each in averages] == [v, w]
    assert all(gradient.op.device == '/device:CPU:0' for gradient, _ in averages)
    first, second = run([gradient for gradient, _ in averages])
    assert first.tolist() == [11, 22]
    assert second == 33


def test_one_tower_is_passed_on() -> None:
    v = variable('v', [0.0])
    gradient = tf.constant([1.0])
    assert average_gradients([[(gradient, v)]])[0][0] is gradient


def test_sparse_and_missing_gradients() -> None:
    table, once, never = variable('table', [[0.0]] * 3), variable('once', 0.0), variable('never', 0.0)
    rows = tf.IndexedSlices(tf.constant([[1.0], [2.0], [5.0]]), tf.constant([0, 2, 0]), tf.constant([3, 1]))
    averages = average_gradients(
        [
            [(rows, table), (None, once), (None, never)],
            [(tf.constant([[1.0], [1.0], [1.0]]), table), (tf.constant(7.0), once), (None, never)],
        ]
    )
    assert [each for _, each in averages] == [table, once]
    dense, single = run([gradient for gradient, _ in averages])
    assert dense.tolist() == [[7], [1], [3]]
    assert single == 7


def test_no_gradient_at_all() -> None:
    with pytest.raises(ValueError, match='no trainable variable'):
        average_gradients([[(None, variable('v', 0.0))]])


def test_towers_with_different_orders() -> None:
    v, w = variable('v', 0.0), variable('w', 0.0)
    one = tf.constant(1.0)
    with pytest.raises(ValueError, match='different orders'):
        average_gradients([[(one, v), (one, w)], [(one, w), (one, v)]])


@pytest.mark.parametrize('bad', [None, np.inf, np.nan])
def test_global_norm(bad: float | None) -> None:
    random = np.random.default_rng(1)
    values = [random.normal(size=shape).astype(np.float32) for shape in ([3, 4], [5], [])]
    expected = np.sqrt(sum(np.sum(np.square(value)) for value in values))
    if bad is not None:
        values[1][3] = bad
    norm = run(global_norm([(tf.constant(value), None) for value in values]))
    if bad is None:
        assert norm == pytest.approx(expected, rel=1e-6)
    else:
        assert not np.isfinite(norm)


@pytest.mark.parametrize('limit', [1.0, 10.0])
def test_a_factor_and_clipping_in_one_pass(limit: float) -> None:
    v = variable('v', [0.0, 0.0])
    gradients = [(tf.constant([30.0, 40.0]), v)]
    factor = tf.constant(0.1)
    norm = global_norm(gradients, factor)
    ((clipped, _),) = clip_gradients(gradients, norm, limit, factor)
    ((scaled, _),) = scale_gradients(gradients, factor)
    assert scale_gradients(gradients, None) is gradients
    computed = run([norm, clipped, scaled])
    assert computed[0] == pytest.approx(5.0)
    np.testing.assert_allclose(computed[1], np.array([3.0, 4.0]) * min(1, limit / 5), rtol=1e-6)
    np.testing.assert_allclose(computed[2], [3.0, 4.0], rtol=1e-6)


@pytest.mark.parametrize('resource', [True, False], ids=['resource', 'reference'])
def test_update_on_a_condition(resource: bool) -> None:
    """Whatever kind of variable a caller made `global_step`."""
    v = variable('v', [1.0, 1.0])
    step = tf.compat.v1.get_variable('global_step', [], tf.int64, trainable=False, use_resource=resource)
    condition = tf.compat.v1.placeholder(tf.bool, [])
    optimizer = tf.compat.v1.train.AdamOptimizer(0.5)
    with tf.compat.v1.name_scope('anywhere'):
        train_op = apply_gradients_if(condition, optimizer, [(tf.constant([1.0, -1.0]), v)], step)
    variables = tf.compat.v1.global_variables()
    assert {each.op.name for each in variables} == {
        'v', 'global_step', 'v/Adam', 'v/Adam_1', 'beta1_power', 'beta2_power'
    }  # fmt: skip
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        first = session.run(variables)
        session.run(train_op, {condition: False})
        for before, after in zip(first, session.run(variables), strict=True):
            np.testing.assert_array_equal(before, after)
        session.run(train_op, {condition: True})
        np.testing.assert_allclose(session.run(v), [0.5, 1.5], rtol=1e-5)
        assert session.run(step) == 1
