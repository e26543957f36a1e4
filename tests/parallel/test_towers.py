from __future__ import annotations

import pytest
import tensorflow as tf

from deepspeech_training.parallel.collective import Collective
from deepspeech_training.parallel.strategy import TowerOutput
from deepspeech_training.parallel.towers import build_towers, get_tower_results
from deepspeech_training.parallel.update import sample_weight

pytestmark = pytest.mark.usefixtures('graph')

GPUS = ['/gpu:0', '/gpu:1', '/gpu:2']


def output(loss: tf.Tensor, count: float, samples: float | None = None) -> TowerOutput:
    return TowerOutput(
        loss_sum=loss,
        count=tf.constant(count),
        bad_names=tf.zeros([0], tf.string),
        samples=None if samples is None else tf.constant(samples),
    )


def linear_tower(x: tf.Tensor) -> TowerOutput:
    w = tf.compat.v1.get_variable('w', [2, 1])
    return output(tf.reduce_sum(tf.matmul(x, w)), 1.0)


def next_batch() -> tf.Tensor:
    return tf.random.normal([3, 2])


def test_scopes_devices_and_shared_variables(graph: tf.Graph) -> None:
    outputs, scopes = build_towers(next_batch, linear_tower, GPUS)
    assert scopes == ['tower_0/', 'tower_1/', 'tower_2/']
    assert [variable.name for variable in tf.compat.v1.global_variables()] == ['w:0']
    for tower, (device, each) in enumerate(zip(GPUS, outputs, strict=True)):
        assert each.loss_sum.op.name.startswith(f'tower_{tower}/')
        assert each.loss_sum.op.device == device.replace('/gpu', '/device:GPU')
    batches = [op for op in graph.get_operations() if op.type == 'RandomStandardNormal']
    assert {op.device for op in batches} == {'/device:CPU:0'}


def test_all_parts_of_a_batch_are_taken_before_the_next(graph: tf.Graph) -> None:
    """A batch may be any structure, with parts that are no tensors."""

    def structured() -> dict[str, object]:
        return {'rows': (tf.random.normal([1, 2]), tf.random.uniform([])), 'name': 'x'}

    build_towers(structured, lambda batch: linear_tower(batch['rows'][0]), GPUS)
    random = [op for op in graph.get_operations() if op.type in ('RandomStandardNormal', 'RandomUniform')]
    before = {op for op in random if op.name.startswith('tower_0/')}
    after = {op for op in random if op.name.startswith('tower_1/')}
    assert len(before) == len(after) == 2
    assert all(before <= ancestors(op) for op in after)
    assert not any(after & ancestors(op) for op in before)


def test_backward_pass_on_the_devices(graph: tf.Graph) -> None:
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
    _, compute_gradients = get_tower_results(next_batch, linear_tower, optimizer, GPUS)
    for tower, [(gradient, variable)] in enumerate(compute_gradients(tf.constant(1.0))):
        assert variable.name == 'w:0'
        assert gradient.op.name.startswith(f'tower_{tower}/gradients/')
        assert gradient.op.device == f'/device:GPU:{tower}'


def test_backward_pass_does_not_wait_for_losses_when_samples_are_known() -> None:
    """The other tower's loss is no input of this tower's gradient."""

    def tower(x: tf.Tensor) -> TowerOutput:
        result = linear_tower(x)
        with tf.control_dependencies([result.loss_sum]):
            late = tf.constant(1.0)
        return TowerOutput(result.loss_sum, late, result.bad_names, samples=tf.constant(1.0))

    optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
    outputs, compute_gradients = get_tower_results(next_batch, tower, optimizer, ['/cpu:0', '/cpu:0'])
    gradients = compute_gradients(sample_weight(outputs, Collective()))
    assert outputs[0].loss_sum.op not in ancestors(gradients[1][0][0].op)


def ancestors(op: tf.Operation) -> set[tf.Operation]:
    seen: set[tf.Operation] = set()
    waiting = [op]
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            waiting += [tensor.op for tensor in each.inputs] + list(each.control_inputs)
    return seen
