"""MFCCs in ONNX, which has no operation for them."""

from __future__ import annotations

import numpy as np
import onnx

from deepspeech_training.config import FeatureConfig
from deepspeech_training.export.feature_matrices import FeatureMatrices, feature_matrices
from deepspeech_training.export.onnx_graph import GraphBuilder


def add_mfccs(graph: GraphBuilder, samples: str, lengths: str, features: FeatureConfig) -> tuple[str, str]:
    """MFCCs float32 `[batch, frames, N_INPUT]`, zeros behind the end of an utterance, and frames int32 `[batch]`.

    `samples`: float32 `[batch, samples]` in [-1, 1]. `lengths`: int32 `[batch]`, how many of them are the utterance's.
    There is at least one frame, though for utterances shorter than a window it does not count.
    """
    width = graph.node('Gather', graph.node('Shape', samples), graph.constant(1))
    heard = _least(graph, graph.node('Cast', lengths, to=onnx.TensorProto.INT64), width)
    frames = _frames(graph, heard, features)
    positions = graph.node(
        'Range', graph.constant(0), _greatest(graph, _frames(graph, width, features), 1), graph.constant(1)
    )
    windows = _windows(graph, samples, positions, features)
    mfccs = _cepstra(graph, windows, feature_matrices(features))
    valid = graph.node('Less', positions, graph.node('Unsqueeze', frames, axes=[1]))
    nothing = graph.constant(np.zeros([], np.float32))
    mfccs = graph.node('Where', graph.node('Unsqueeze', valid, axes=[2]), mfccs, nothing)
    return mfccs, graph.node('Cast', frames, to=onnx.TensorProto.INT32)


def cut_to_longest(graph: GraphBuilder, values: str, frames: str) -> str:
    """`values` `[batch, frames, ...]` without the frames that no utterance has."""
    most = graph.node('ReduceMax', graph.node('Cast', frames, to=onnx.TensorProto.INT64), axes=[0], keepdims=1)
    return graph.node('Slice', values, graph.constant([0]), most, graph.constant([1]))


def _frames(graph: GraphBuilder, samples: str, features: FeatureConfig) -> str:
    """How many windows fit into a number of samples, int64."""
    beyond = graph.node('Sub', samples, graph.constant(features.window_samples - features.step_samples))
    return graph.node('Div', _greatest(graph, beyond, 0), graph.constant(features.step_samples))


def _windows(graph: GraphBuilder, samples: str, positions: str, features: FeatureConfig) -> str:
    """`[batch, frames, 1 + window]`: each window and the sample before it; beyond the ends are zeros."""
    window = features.window_samples
    padded = graph.node('Pad', samples, graph.constant([0, 1, 0, window]))
    starts = graph.node('Mul', positions, graph.constant(features.step_samples))
    indices = graph.node('Add', graph.node('Unsqueeze', starts, axes=[1]), graph.constant(np.arange(1 + window)))
    return graph.node('Gather', padded, indices, axis=1)


def _cepstra(graph: GraphBuilder, windows: str, matrices: FeatureMatrices) -> str:
    """`[batch, frames, N_INPUT]`; see `feature_matrices`. What has to be in float64 is: the energies."""
    windows = graph.node('Cast', windows, to=onnx.TensorProto.DOUBLE)
    parts = [
        graph.node('MatMul', windows, graph.constant(part, f'spectrum_{name}'))
        for name, part in zip(('real', 'imaginary'), np.split(matrices.spectrum, 2, axis=1), strict=True)
    ]
    power = graph.node('Add', *(graph.node('Mul', part, part) for part in parts))
    if matrices.magnitude:
        power = graph.node('Sqrt', power)
    energies = graph.node('MatMul', power, graph.constant(matrices.filters, 'filters'))
    energies = graph.node('Cast', energies, to=onnx.TensorProto.FLOAT)
    least = graph.constant(np.array(matrices.least, np.float32))
    cepstrum = graph.constant(matrices.cepstrum.astype(np.float32), 'cepstrum')
    return graph.node('MatMul', graph.node('Log', graph.node('Max', energies, least)), cepstrum)


def _greatest(graph: GraphBuilder, values: str, other: int) -> str:
    """`Max` knows integers only from opset 12 on."""
    constant = graph.constant(other)
    return graph.node('Where', graph.node('Less', values, constant), constant, values)


def _least(graph: GraphBuilder, values: str, other: str) -> str:
    return graph.node('Where', graph.node('Less', other, values), other, values)
