"""The whole model: variables, padding, windows, dropout, layer norm."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.config import N_INPUT, ModelConfig
from deepspeech_training.model.acoustic import create_model
from deepspeech_training.model.ctc import ctc_losses
from deepspeech_training.model.layers import TYPICAL_MFCCS, WINDOW
from deepspeech_training.model.lstm import LSTMState

tfv1 = tf.compat.v1

ON_CPU = ['hoisted', 'block', 'unrolled']
LSTM_NAME = 'cudnn_lstm/rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell'
NO_DROPOUT = (0.0,) * 6
SMALL = ModelConfig(n_hidden=8, dropout=NO_DROPOUT)
N_OUTPUT = 4


def random_features(lengths: list[int], frames: int | None = None) -> np.ndarray:
    """The same values for the same lengths, whatever the number of frames; zero behind the end."""
    random = np.random.default_rng(2)
    features = np.zeros([len(lengths), frames or max(lengths), 26], np.float32)
    for row, length in zip(features, lengths, strict=True):
        row[:length] = random.normal(size=[length, 26])
    return features


def losses_and_gradients(
    features: np.ndarray, lengths: list[int], model: ModelConfig, lstm: str
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Logits, losses, and gradients of the sum of the losses."""
    with tf.Graph().as_default() as graph, tfv1.Session(graph=graph) as session:
        seq = tf.constant(lengths)
        output = create_model(tf.constant(features), seq, model, N_OUTPUT, training=True, lstm=lstm, seed=1)
        batch = len(lengths)
        losses = ctc_losses(output.logits, seq, tf.ones([batch, 1], tf.int32), tf.ones([batch], tf.int32))
        variables = tfv1.trainable_variables()
        gradients = tf.gradients(tf.reduce_sum(losses), variables)
        session.run(tfv1.global_variables_initializer())
        named = {variable.op.name: gradient for variable, gradient in zip(variables, gradients, strict=True)}
        return tuple(session.run((output.logits, losses, named)))


@pytest.mark.parametrize('layer_norm', [False, True])
def test_variables_are_deepspeechs(layer_norm: bool, graph: tf.Graph) -> None:
    model = dataclasses.replace(SMALL, layer_norm=layer_norm)
    features, lengths = tf.zeros([2, 5, 26]), tf.constant([5, 3])
    create_model(features, lengths, model, N_OUTPUT, training=True, lstm='hoisted')
    create_model(features, lengths, model, N_OUTPUT, training=False, lstm='block')
    shapes = {variable.op.name: tuple(variable.shape.as_list()) for variable in tfv1.global_variables()}
    expected: dict[str, tuple[int, ...]] = {
        'layer_1/weights': (494, 8),
        'layer_2/weights': (8, 8),
        'layer_3/weights': (8, 8),
        'layer_5/weights': (8, 8),
        'layer_6/weights': (8, 4),
        f'{LSTM_NAME}/kernel': (16, 32),
        f'{LSTM_NAME}/bias': (32,),
    }
    for name in ('layer_1', 'layer_2', 'layer_3', 'layer_5', 'layer_6'):
        expected[f'{name}/bias'] = (4 if name == 'layer_6' else 8,)
        if layer_norm and name != 'layer_6':
            expected[f'{name}/LayerNorm/beta'] = expected[f'{name}/LayerNorm/gamma'] = (8,)
    assert shapes == expected
    assert all('CPU:0' in variable.device for variable in tfv1.global_variables())


@pytest.mark.parametrize('lstm', ['block', 'unrolled'])
@pytest.mark.parametrize('layer_norm', [False, True])
def test_implementations_agree(lstm: str, layer_norm: bool) -> None:
    model = dataclasses.replace(SMALL, layer_norm=layer_norm)
    lengths = [6, 4, 1]
    features = random_features(lengths)
    logits, losses, gradients = losses_and_gradients(features, lengths, model, lstm)
    same_logits, same_losses, same_gradients = losses_and_gradients(features, lengths, model, 'hoisted')
    np.testing.assert_allclose(logits, same_logits, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(losses, same_losses, rtol=1e-5)
    for name, gradient in gradients.items():
        assert gradient.any(), name
        np.testing.assert_allclose(gradient, same_gradients[name], rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize('value', [float('nan'), 1e20, 3.0])
@pytest.mark.parametrize('lstm', ON_CPU)
def test_padding_reaches_no_valid_frame(lstm: str, value: float) -> None:
    lengths = [6, 4, 1]
    clean = random_features(lengths)
    spoilt = random_features(lengths, frames=9)
    for row, length in zip(spoilt, lengths, strict=True):
        row[length:] = value
    logits, losses, gradients = losses_and_gradients(clean, lengths, SMALL, lstm)
    same_logits, same_losses, same_gradients = losses_and_gradients(spoilt, lengths, SMALL, lstm)
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(same_logits[:length, row], logits[:length, row], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(same_losses, losses, rtol=1e-5)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(same_gradients[name], gradient, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize('layer_norm', [False, True])
def test_layers_are_those_written_out(layer_norm: bool, graph: tf.Graph) -> None:
    """A clip that is met, biases and norms that are not the initial ones, against NumPy."""
    model = dataclasses.replace(SMALL, layer_norm=layer_norm, relu_clip=0.7)
    features = random_features([6])
    output = create_model(tf.constant(features), tf.constant([6]), model, N_OUTPUT, training=False, lstm='hoisted')
    lstm_out = create_model(tf.constant(features), None, model, N_OUTPUT, training=False, lstm='unrolled').state.h
    random = np.random.default_rng(8)
    with tfv1.Session(graph=graph) as session:
        values = {}
        for variable in tfv1.global_variables():
            values[variable.op.name] = random.normal(size=variable.shape.as_list()).astype(np.float32)
            variable.load(values[variable.op.name], session)
        logits, last_h = session.run((output.logits, lstm_out))

    def layer(name: str, x: np.ndarray) -> np.ndarray:
        y = np.clip(x @ values[f'{name}/weights'] + values[f'{name}/bias'], 0, 0.7)
        if layer_norm:
            y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-12)
            y = y * values[f'{name}/LayerNorm/gamma'] + values[f'{name}/LayerNorm/beta']
        return y

    padded = np.pad(features[0], [(9, 9), (0, 0)])
    x = np.stack([padded[t : t + 19].reshape(-1) for t in range(6)])
    x = layer('layer_3', layer('layer_2', layer('layer_1', x)))
    c = h = np.zeros(8)
    for t in range(6):
        gates = np.concatenate([x[t], h]) @ values[f'{LSTM_NAME}/kernel'] + values[f'{LSTM_NAME}/bias']
        i, ci, f, o = np.split(gates, 4)
        c = c / (1 + np.exp(-f)) + np.tanh(ci) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
    np.testing.assert_allclose(last_h[0], h, rtol=1e-3, atol=1e-4)
    expected = layer('layer_5', h) @ values['layer_6/weights'] + values['layer_6/bias']
    np.testing.assert_allclose(logits[5, 0], expected, rtol=1e-3, atol=2e-3)


def test_windows_and_states_stream(graph: tf.Graph) -> None:
    """Windows made outside, a few frames at a time, with the state handed on: the same logits."""
    features = random_features([10])
    whole = create_model(tf.constant(features), tf.constant([10]), SMALL, N_OUTPUT, training=False, lstm='hoisted')
    padded = np.pad(features[0], [(9, 9), (0, 0)])
    windows = np.stack([padded[t : t + 19] for t in range(10)])[None]
    fed, c, h = (tfv1.placeholder(tf.float32, s) for s in ([1, 5, 19, 26], [1, 8], [1, 8]))
    part = create_model(fed, None, SMALL, N_OUTPUT, training=False, lstm='unrolled', initial_state=LSTMState(c, h))
    with tfv1.Session(graph=graph) as session:
        session.run(tfv1.global_variables_initializer())
        state = LSTMState(np.zeros([1, 8]), np.zeros([1, 8]))
        logits = []
        for start in (0, 5):
            values = {fed: windows[:, start : start + 5], c: state.c, h: state.h}
            some, state = session.run((part.logits, part.state), values)
            logits.append(some)
        expected, last = session.run((whole.logits, whole.state))
    np.testing.assert_allclose(np.concatenate(logits), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state.c, last.c, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state.h, last.h, rtol=1e-5, atol=1e-6)


def test_dropout_only_in_training_and_by_batch(graph: tf.Graph) -> None:
    model = dataclasses.replace(SMALL, n_hidden=64, dropout=(0.3, 0.3, 0.3, 0.3, 0.3, 0.3))
    features = tf.constant(random_features([8]))

    batch = tfv1.placeholder(tf.int64, [])

    def logits(training: bool) -> tf.Tensor:
        output = create_model(
            features, tf.constant([8]), model, N_OUTPUT, training=training, lstm='hoisted', seed=4, stream=batch
        )
        return output.logits

    without = logits(training=False)
    with tf.name_scope('tower_0'):
        first = logits(training=True)
    with tf.name_scope('tower_1'):
        second = logits(training=True)
    runs = []
    for _ in range(2):
        with tfv1.Session(graph=graph) as session:
            session.run(tfv1.global_variables_initializer())
            runs.append([session.run((without, first, second), {batch: number}) for number in (5, 6)])
    np.testing.assert_array_equal(runs[0], runs[1])  # from the seed
    steps = runs[0]
    np.testing.assert_array_equal(steps[0][0], steps[1][0])
    assert np.abs(steps[0][1] - steps[1][1]).max() > 1e-3  # new numbers for each batch
    np.testing.assert_array_equal(steps[0][1], steps[0][2])  # on whichever tower


@pytest.mark.parametrize('layer', range(6))
def test_each_rate_has_its_place(layer: int, graph: tf.Graph) -> None:
    """Dropping almost everything at one place only: what comes behind it sees zeros."""
    rates = [0.0] * 6
    rates[layer] = 0.99999
    model = dataclasses.replace(SMALL, dropout=tuple(rates))  # type: ignore[arg-type]
    features = tf.constant(random_features([3, 2]))
    output = create_model(features, tf.constant([3, 2]), model, N_OUTPUT, training=True, lstm='hoisted', seed=4)
    with tfv1.Session(graph=graph) as session:
        session.run(tfv1.global_variables_initializer())
        variables = {v.op.name: v for v in tfv1.global_variables()}
        bias = variables['layer_5/bias']
        bias.load(np.full(8, 0.5, np.float32), session)
        logits, state = session.run(output)
        after_layer_5 = session.run(variables['layer_6/weights']).sum(axis=0) * 0.5
    only_biases = np.zeros_like(logits) if layer >= 4 else np.broadcast_to(after_layer_5, logits.shape)
    np.testing.assert_allclose(logits, only_biases, atol=1e-6)
    assert state.h.any() == (layer > 2)  # the LSTM's biases are zero: nothing comes from nothing


def test_initial_values(graph: tf.Graph) -> None:
    """Layer 1 starts without the mean of speech; the forget gate starts open; everything else of a bias at 0."""
    model = ModelConfig(n_hidden=32, dropout=(0.0,) * 6)
    create_model(tf.zeros([1, 4, N_INPUT]), None, model, N_OUTPUT, training=True, lstm='hoisted', seed=4)
    variables = {v.op.name: v for v in tfv1.global_variables()}
    with tfv1.Session(graph=graph) as session:
        session.run(tfv1.global_variables_initializer())
        values = session.run(variables)
    typical = np.tile(np.pad(TYPICAL_MFCCS, (0, N_INPUT - len(TYPICAL_MFCCS))), WINDOW)
    np.testing.assert_allclose(typical @ values['layer_1/weights'] + values['layer_1/bias'], 0, atol=1e-4)
    assert np.abs(values['layer_1/bias']).max() > 1
    for name in ('layer_2', 'layer_3', 'layer_5', 'layer_6'):
        assert not values[f'{name}/bias'].any()
        limit = np.sqrt(6 / 32)
        assert 0.9 * limit < np.abs(values[f'{name}/weights']).max() <= limit
    i, c, f, o = np.split(values[f'{LSTM_NAME}/bias'], 4)
    assert (i.any(), c.any(), o.any(), set(f)) == (False, False, False, {1})
    assert np.abs(values[f'{LSTM_NAME}/kernel']).max() <= 1 / np.sqrt(32)
