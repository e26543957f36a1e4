"""Freezing: variables and constant arithmetic become constants, the rest stays."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.export.graphdef import freeze, missing_operations

tfv1 = tf.compat.v1


def build() -> None:
    """`y = x @ w * 3`, an unused node, static shape arithmetic with two outputs, and a constant output."""
    with tf.device('/cpu:0'):
        weights = tfv1.get_variable('w', initializer=tf.constant([[1.0, 2.0], [3.0, 4.0]]), use_resource=True)
    x = tfv1.placeholder(tf.float32, [5, 2], name='x')
    tf.exp(x, name='unused')
    product = tf.matmul(x, weights)
    rows, columns = tf.unstack(tf.shape(product))
    # Both numbers go through operations that the client does not have.
    product, _ = tf.identity_n([tf.identity(product), tf.stop_gradient(x)])
    tf.identity(tf.reshape(product, tf.stack([columns, rows])) * tf.exp(0.0) * 3, name='y')
    tf.identity(tf.exp(tf.constant([0.0])), name='one')


def test_frozen_graph_computes_the_same(graph: tf.Graph) -> None:
    build()
    with tfv1.Session() as session:
        session.run(tfv1.global_variables_initializer())
        frozen = freeze(session, ['y', 'one'])
    nodes = {node.name: node for node in frozen.node}
    assert nodes['w'].op == 'Const'
    assert nodes['one'].op == 'Const'
    assert nodes['y'].op == 'Identity'
    assert [node.op for node in frozen.node if node.op != 'Const'] == [
        'Placeholder',
        'MatMul',
        'Reshape',
        'Mul',
        'Mul',
        'Identity',
    ]
    assert 'unused' not in nodes
    assert missing_operations(frozen) == []
    assert not any(node.device for node in frozen.node)
    assert not any('transpose_a' in node.attr for node in frozen.node)  # False is its default
    x = np.arange(10.0).reshape(5, 2)
    with tf.Graph().as_default(), tfv1.Session() as session:
        tf.import_graph_def(frozen, name='')
        y, one = session.run(['y:0', 'one:0'], {'x:0': x})
    np.testing.assert_allclose(y, (x @ [[1, 2], [3, 4]]).reshape(2, 5) * 3)
    assert one == [1.0]


def test_missing_output_is_named(graph: tf.Graph) -> None:
    build()
    with tfv1.Session() as session, pytest.raises(KeyError, match='nowhere'):
        freeze(session, ['nowhere'])


def test_operations_the_client_lacks_are_found(graph: tf.Graph) -> None:
    x = tfv1.placeholder(tf.float32, [2])
    tf.math.log(tf.nn.relu(x)[0:1], name='y')
    with tfv1.Session() as session:
        assert missing_operations(freeze(session, ['y'])) == ['Log', 'StridedSlice']
