"""The acoustic model in ONNX. `model.acoustic` says what it is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deepspeech_training.config import N_INPUT, ModelConfig
from deepspeech_training.export.onnx_graph import GraphBuilder
from deepspeech_training.export.weights import Weights
from deepspeech_training.model.layers import NORM_EPSILON, WINDOW
from deepspeech_training.model.lstm.registry import SCOPE


class State(NamedTuple):
    """Cell and output of the LSTM, float32 `[batch, n_hidden]` each."""

    c: str
    h: str


def add_acoustic_model(
    graph: GraphBuilder, mfccs: str, frames: str, weights: Weights, model: ModelConfig, initial: State | None = None
) -> tuple[str, State]:
    """Log-probabilities float32 `[batch, frames, n_output]`, and the state at the end of each utterance.

    `mfccs`: float32 `[batch, N_CONTEXT + frames + N_CONTEXT, N_INPUT]`. `frames`: int32 `[batch]`, those of each
    utterance; the log-probabilities behind them mean nothing. `initial`: zeros by default.
    """
    layer = _first_layer(graph, mfccs, weights, model)  # [frames, batch, n_hidden] from here on
    for name in ('layer_2', 'layer_3'):
        layer = _activation(graph, name, _linear(graph, name, layer, weights), weights, model)
    layer, state = _lstm(graph, layer, frames, weights, initial)
    layer = _activation(graph, 'layer_5', _linear(graph, 'layer_5', layer, weights), weights, model)
    logits = _linear(graph, 'layer_6', layer, weights)
    return graph.node('Transpose', graph.node('LogSoftmax', logits, axis=2), perm=[1, 0, 2]), state


def _first_layer(graph: GraphBuilder, mfccs: str, weights: Weights, model: ModelConfig) -> str:
    """A convolution over time: each frame with its context, without windows being built."""
    kernel = weights['layer_1/weights'].reshape(WINDOW, N_INPUT, -1).transpose(2, 1, 0)
    channels_first = graph.node('Transpose', mfccs, perm=[0, 2, 1])
    bias = graph.constant(weights['layer_1/bias'], 'layer_1/bias')
    layer = graph.node('Conv', channels_first, graph.constant(kernel, 'layer_1/weights'), bias, kernel_shape=[WINDOW])
    return _activation(graph, 'layer_1', graph.node('Transpose', layer, perm=[2, 0, 1]), weights, model)


def _linear(graph: GraphBuilder, name: str, inputs: str, weights: Weights) -> str:
    product = graph.node('MatMul', inputs, graph.constant(weights[f'{name}/weights'], f'{name}/weights'))
    return graph.node('Add', product, graph.constant(weights[f'{name}/bias'], f'{name}/bias'))


def _activation(graph: GraphBuilder, name: str, inputs: str, weights: Weights, model: ModelConfig) -> str:
    """The clipped ReLU and, if the model has it, layer normalization."""
    greatest = graph.constant(np.array(model.relu_clip, np.float32))
    clipped = graph.node('Clip', inputs, graph.constant(np.array(0, np.float32)), greatest)
    if not model.layer_norm:
        return clipped
    centred = graph.node('Sub', clipped, graph.node('ReduceMean', clipped, axes=[2]))
    variance = graph.node('ReduceMean', graph.node('Mul', centred, centred), axes=[2])
    deviation = graph.node('Sqrt', graph.node('Add', variance, graph.constant(np.array(NORM_EPSILON, np.float32))))
    gamma, beta = (
        graph.constant(weights[f'{name}/LayerNorm/{part}'], f'{name}/LayerNorm/{part}') for part in ('gamma', 'beta')
    )
    return graph.node('Add', graph.node('Mul', graph.node('Div', centred, deviation), gamma), beta)


def _lstm(graph: GraphBuilder, inputs: str, frames: str, weights: Weights, initial: State | None) -> tuple[str, State]:
    """ONNX has weights of inputs and of outputs apart, `[1, 4 * n_hidden, n_hidden]`, and a bias for both."""
    kernel, bias = _reordered(weights[f'{SCOPE}/kernel']), _reordered(weights[f'{SCOPE}/bias'])
    n_hidden = len(bias) // 4
    from_inputs, recurrent = kernel[:n_hidden].T, kernel[n_hidden:].T
    constants = [
        graph.constant(from_inputs[np.newaxis], 'lstm/inputs'),
        graph.constant(recurrent[np.newaxis], 'lstm/recurrent'),
        graph.constant(np.concatenate([bias, np.zeros_like(bias)])[np.newaxis], 'lstm/bias'),
    ]
    states = [graph.node('Unsqueeze', value, axes=[0]) for value in (initial.h, initial.c)] if initial else []
    outputs, h, c = graph.nodes('LSTM', inputs, *constants, frames, *states, outputs=3, hidden_size=n_hidden)
    state = State(graph.node('Squeeze', c, axes=[0]), graph.node('Squeeze', h, axes=[0]))
    if initial:  # ONNX Runtime forgets the state of a row without frames
        any_frames = graph.node('Less', graph.constant(np.array(0, np.int32)), frames)
        any_frames = graph.node('Unsqueeze', any_frames, axes=[1])
        state = State(*(graph.node('Where', any_frames, *pair) for pair in zip(state, initial, strict=True)))
    return graph.node('Squeeze', outputs, axes=[1]), state


def _reordered(values: np.ndarray) -> np.ndarray:
    """The gates along the last axis in ONNX's order: input, output, forget, cell."""
    i, ci, f, o = np.split(values, 4, axis=-1)
    return np.concatenate([i, o, f, ci], axis=-1)
