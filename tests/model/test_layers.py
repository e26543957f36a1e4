"""One feed-forward layer: windows, dropout, and its own gradient."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.config import ModelConfig
from deepspeech_training.model.layers import Dropout, dense, dropout, windows

tfv1 = tf.compat.v1


@pytest.mark.parametrize('rate', [0.05, 0.3])
def test_dropout_drops_a_share_and_keeps_the_mean(rate: float, graph: tf.Graph) -> None:
    with tfv1.Session(graph=graph) as session:
        dropped = session.run(dropout('layer_2', tf.ones([400, 250]), rate, Dropout(1)))
    assert np.unique(dropped) == pytest.approx([0, 1 / (1 - rate)], rel=1e-4)
    assert (dropped == 0).mean() == pytest.approx(rate, abs=5 * np.sqrt(rate * (1 - rate) / dropped.size))


@pytest.mark.parametrize('size', [1, 2, 3, 4, 5])
def test_dropout_of_few(size: int, graph: tf.Graph) -> None:
    """Four decisions come from one random number."""
    batch = tfv1.placeholder(tf.int64, [])
    dropped = dropout('layer_2', tf.ones([size]), 0.5, Dropout(1, batch))
    with tfv1.Session(graph=graph) as session:
        steps = [session.run(dropped, {batch: number}) for number in range(30)]
    assert {step.shape for step in steps} == {(size,)}
    assert all(set(np.stack(steps)[:, place]) == {0, 2} for place in range(size))


def test_neighbours_are_dropped_independently(graph: tf.Graph) -> None:
    with tfv1.Session(graph=graph) as session:
        kept = session.run(dropout('layer_2', tf.ones([200000]), 0.5, Dropout(1))) > 0
    for distance in (1, 2, 3, 4, 8):
        same = (kept[distance:] == kept[:-distance]).mean()
        assert same == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(kept.size)), distance


def test_seed_layer_and_batch_decide(graph: tf.Graph) -> None:
    """And nothing else: neither the tower, nor how many steps there were before."""
    batch = tfv1.placeholder(tf.int64, [])
    with tf.name_scope('tower_0'):
        one = dropout('layer_2', tf.ones([1000]), 0.5, Dropout(1, batch))
    with tf.name_scope('tower_1'):
        same = dropout('layer_2', tf.ones([1000]), 0.5, Dropout(1, batch))
        other_layer = dropout('layer_3', tf.ones([1000]), 0.5, Dropout(1, batch))
        other_seed = dropout('layer_2', tf.ones([1000]), 0.5, Dropout(2, batch))
    large = 3 * 2**32
    with tfv1.Session(graph=graph) as session:
        first = session.run([one, other_layer, other_seed], {batch: large + 1})
        session.run(one, {batch: 7})
        again = session.run(same, {batch: large + 1})
        others = [session.run(one, {batch: number}) for number in (large, large + 2, 1)]
    np.testing.assert_array_equal(first[0], again)
    for other in [*first[1:], *others]:
        assert (first[0] == other).mean() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize('rate', [0.0, 0.4])
def test_gradient_of_a_layer(rate: float, graph: tf.Graph) -> None:
    """Against the definition; negative, clipped, dropped and passed units all occur."""
    random = np.random.default_rng(7)
    model = ModelConfig(n_hidden=40, relu_clip=0.5)
    x, upstream = (random.normal(size=[30, size]).astype(np.float32) for size in (12, 40))
    inputs = tf.constant(x)
    outputs = dense('layer_2', inputs, model, rate, Dropout(3))
    weights, bias = tfv1.trainable_variables()
    gradients = tf.gradients(outputs, [inputs, weights, bias], upstream)
    with tfv1.Session(graph=graph) as session:
        session.run(tfv1.global_variables_initializer())
        bias.load(random.normal(size=40).astype(np.float32), session)
        y, w, b, by_inputs, by_weights, by_bias = session.run([outputs, weights, bias, *gradients])
    scale = 1 / (1 - rate)
    linear = x @ w + b
    expected = np.clip(linear, 0, 0.5) * scale
    dropped = (y == 0) & (linear > 0)
    assert dropped.mean() == pytest.approx((linear > 0).mean() * rate, abs=0.1)
    np.testing.assert_allclose(y, np.where(dropped, 0, expected), rtol=1e-4, atol=1e-5)
    passes = (linear > 0) & (linear < 0.5) & ~dropped
    assert 0.02 < passes.mean() < 0.5
    inner = np.where(passes, upstream * scale, 0)
    np.testing.assert_allclose(by_inputs, inner @ w.T, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(by_weights, x.T @ inner, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(by_bias, inner.sum(axis=0), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(('compute_type', 'unit'), [('bfloat16', 2**-8), ('float16', 2**-11)])
@pytest.mark.parametrize('rate', [0.0, 0.4])
def test_a_layer_in_half_precision(rate: float, compute_type: str, unit: float, graph: tf.Graph) -> None:
    """Within two rounding errors of the definition in each result, taken as one vector."""
    random = np.random.default_rng(7)
    model = ModelConfig(n_hidden=40, relu_clip=0.5, compute_type=compute_type)
    x, upstream = (random.normal(size=[30, size]).astype(np.float32) for size in (12, 40))
    inputs = tf.constant(x)
    outputs = dense('layer_2', inputs, model, rate, Dropout(3))
    weights, bias = tfv1.trainable_variables()
    gradients = tf.gradients(outputs, [inputs, weights, bias], tf.cast(upstream, compute_type))
    assert outputs.dtype == compute_type
    assert {part.dtype.base_dtype for part in (weights, bias, *gradients)} == {tf.float32}
    with tfv1.Session(graph=graph) as session:
        session.run(tfv1.global_variables_initializer())
        bias.load(random.normal(size=40).astype(np.float32), session)
        y, w, b, *computed = session.run([tf.cast(outputs, tf.float32), weights, bias, *gradients])
    scale = 1 / (1 - rate)
    clipped = np.clip(x @ w + b, 0, 0.5) * scale
    passes = (y > 0) & (y < y.max())
    assert np.sum(y == y.max()) > 50
    assert y.max() == pytest.approx(0.5 * scale, rel=unit)
    inner = np.where(passes, upstream * scale, 0)
    expected = [np.where(y == 0, 0, clipped), inner @ w.T, x.T @ inner, inner.sum(axis=0)]
    for ours, wanted in zip([y, *computed], expected, strict=True):
        assert 0 < np.linalg.norm(ours - wanted) <= 2 * unit * np.linalg.norm(wanted)


def test_layer_norm_comes_before_dropout(graph: tf.Graph) -> None:
    model = dataclasses.replace(ModelConfig(n_hidden=200), layer_norm=True)
    outputs = dense('layer_2', tf.random.normal([50, 10], seed=2), model, 0.5, Dropout(3))
    with tfv1.Session(graph=graph) as session:
        session.run(tfv1.global_variables_initializer())
        kept = session.run(outputs)
    assert (kept == 0).mean() == pytest.approx(0.5, abs=0.05)
    assert kept.mean() == pytest.approx(0, abs=0.1)
    assert (kept**2).mean() == pytest.approx(2, abs=0.3)  # variance 1, doubled for half of the units


def test_windows_are_frames_in_context(graph: tf.Graph) -> None:
    features = np.random.default_rng(1).normal(size=[2, 4, 26]).astype(np.float32)
    with tfv1.Session(graph=graph) as session:
        computed = session.run(windows(tf.constant(features)))
    padded = np.pad(features, [(0, 0), (9, 9), (0, 0)])
    expected = [padded[row, t : t + 19].reshape(-1) for t in range(4) for row in range(2)]
    np.testing.assert_array_equal(computed, expected)
