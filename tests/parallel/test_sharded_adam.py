"""Adam with its moments in parts: the same updates as TensorFlow's, the moments where they belong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.parallel.collective import Collective
from deepspeech_training.parallel.flat_adam import FlatAdam, Sharding
from deepspeech_training.parallel.sharded_adam import ShardedAdam, deal_out

pytestmark = pytest.mark.usefixtures('graph')

tfv1 = tf.compat.v1
SHAPES = {'kernel': [3, 4], 'bias': [4], 'scale': []}
SETTINGS = {'learning_rate': 0.1, 'beta1': 0.9, 'beta2': 0.99, 'epsilon': 1e-3}


def run(apply: Callable[[list[tuple[tf.Tensor, tf.Variable]], tf.Variable], tf.Operation]) -> dict[str, np.ndarray]:
    """The variables after five updates with random gradients."""
    tfv1.disable_v2_behavior()
    with tf.Graph().as_default():
        random = np.random.default_rng(3)
        parameters = [
            tfv1.get_variable(name, initializer=random.normal(size=shape).astype(np.float32), use_resource=True)
            for name, shape in SHAPES.items()
        ]
        step = tfv1.train.get_or_create_global_step()
        given = [tfv1.placeholder(tf.float32, p.shape) for p in parameters]
        train_op = apply(list(zip(given, parameters, strict=True)), step)
        variables = {v.op.name: v for v in tfv1.global_variables()}
        proto = tfv1.ConfigProto(device_count={'CPU': 2})
        with tfv1.Session(config=proto) as session:
            session.run([tfv1.global_variables_initializer(), tfv1.local_variables_initializer()])
            for _ in range(5):
                session.run(train_op, {g: random.normal(size=g.shape) for g in given})
            values: dict[str, np.ndarray] = session.run(variables)
            return values


def with_tensorflow() -> dict[str, np.ndarray]:
    return run(lambda pairs, step: tfv1.train.AdamOptimizer(**SETTINGS).apply_gradients(pairs, global_step=step))


def test_moments_on_several_devices() -> None:
    optimizer = ShardedAdam(**SETTINGS, devices=['/cpu:0', '/cpu:1'])
    devices: dict[str, str] = {}

    def apply(pairs: list[tuple[tf.Tensor, tf.Variable]], step: tf.Variable) -> tf.Operation:
        train_op = optimizer.apply_gradients(pairs, global_step=step)
        devices.update({v.op.name: v.device for v in tfv1.global_variables()})
        return train_op

    ours, theirs = run(apply), with_tensorflow()
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], rtol=2e-5, atol=1e-7, err_msg=name)
    assert devices['kernel/Adam'] == devices['kernel/Adam_1'] == '/device:CPU:0'
    assert devices['bias/Adam'] == devices['bias/Adam_1'] == '/device:CPU:1'


def test_a_second_use_has_the_same_moments() -> None:
    """Towers that take turns build an update each."""
    optimizer = ShardedAdam(**SETTINGS, devices=['/cpu:0'])

    def apply(pairs: list[tuple[tf.Tensor, tf.Variable]], step: tf.Variable) -> tf.Operation:
        optimizer.apply_gradients(pairs, global_step=step)
        return optimizer.apply_gradients(pairs, global_step=step)

    assert run(apply).keys() == with_tensorflow().keys()


def test_one_flat_vector() -> None:
    """With one process; tests of Horovod have several."""
    sharding = Sharding(Collective())
    optimizer = FlatAdam(**SETTINGS, sharding=sharding)

    def apply(pairs: list[tuple[tf.Tensor, tf.Variable]], step: tf.Variable) -> tf.Operation:
        return optimizer.apply_gradients(sharding.sum_gradients(pairs), global_step=step)

    ours, theirs = run(apply), with_tensorflow()
    assert {name for name in theirs if '/Adam' not in name} == set(ours)
    assert optimizer.slots is not None
    assert optimizer.slots.shapes == {name: list(v.shape) for name, v in theirs.items() if '/Adam' in name}
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], rtol=2e-5, atol=1e-7, err_msg=name)


def test_moments_are_read_and_written_by_parameter() -> None:
    sharding = Sharding(Collective())
    optimizer = FlatAdam(**SETTINGS, sharding=sharding)
    parameters = [tfv1.get_variable(name, shape, use_resource=True) for name, shape in SHAPES.items()]
    pairs = sharding.sum_gradients([(tf.ones(p.shape), p) for p in parameters])
    train_op = optimizer.apply_gradients(pairs)
    slots = optimizer.slots
    assert slots is not None
    with tfv1.Session() as session:
        session.run(tfv1.global_variables_initializer())
        slots.initialize(session)
        session.run(train_op)
        values = slots.read(session)
        np.testing.assert_allclose(values['kernel/Adam'], np.full([3, 4], 0.1), rtol=1e-6)
        np.testing.assert_allclose(values['scale/Adam_1'], 0.01, rtol=1e-5)
        random = np.random.default_rng(1)
        given = {name: random.normal(size=v.shape).astype(np.float32) for name, v in values.items()}
        del given['bias/Adam']
        slots.write(given)
        slots.share(session, 0)
        read = slots.read(session)
        assert read.pop('bias/Adam').tolist() == [0.0] * 4
        for name, value in read.items():
            np.testing.assert_array_equal(value, given[name])
        slots.initialize(session)
        assert not any(value.any() for value in slots.read(session).values())


@pytest.mark.parametrize(
    ('sizes', 'owners', 'expected'),
    [([5], 2, [0]), ([1, 5, 4, 1], 2, [1, 0, 1, 0]), ([2, 2, 2], 3, [0, 1, 2]), ([], 2, [])],
)
def test_parameters_are_dealt_out_evenly(sizes: list[int], owners: int, expected: list[int]) -> None:
    assert deal_out(sizes, owners) == expected
