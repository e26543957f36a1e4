"""Export to ONNX: the whole model, its two halves, and a repository for Triton."""

from __future__ import annotations

import json

import numpy as np

from deepspeech_training.config import N_CONTEXT, N_INPUT, Config
from deepspeech_training.export.files import Part, model_file, part_of_bytes
from deepspeech_training.export.metadata import GRAPH_VERSION
from deepspeech_training.export.onnx_acoustic import State, add_acoustic_model
from deepspeech_training.export.onnx_features import add_mfccs, cut_to_longest
from deepspeech_training.export.onnx_graph import Dimension, GraphBuilder
from deepspeech_training.export.triton import triton_config
from deepspeech_training.export.weights import Weights, read_weights
from deepspeech_training.text.alphabet import Alphabet

BATCH, SAMPLES, FRAMES = 'batch', 'samples', 'frames'  # sizes that each call decides


def onnx_parts(config: Config, alphabet: Alphabet) -> dict[str, Part]:
    """The checkpoint's model as files for ONNX, and a folder `triton` that Triton serves.

    `FILE_NAME.onnx`: from audio to log-probabilities. `FILE_NAME.mfccs.onnx` and `FILE_NAME.acoustic.onnx`: its two
    halves, from audio to MFCCs and on from there, for streams and for runtimes that have float32 only.

    Raises:
      CheckpointError: there is no checkpoint, or it does not fit the flags.
      ExportError: the model is too large for the format.
    """
    weights = read_weights(config, alphabet)
    metadata = onnx_metadata(config, alphabet)
    whole = whole_model(config, weights, alphabet.size + 1).serialize(metadata)
    halves = {
        'mfccs': mfcc_model(config).serialize(metadata),
        'acoustic': acoustic_model(config, weights, alphabet.size + 1).serialize(metadata),
    }
    name = config.export.model_name
    return {
        model_file(config.export, '.onnx'): part_of_bytes(whole, foreign='replace'),
        **{model_file(config.export, f'.{half}.onnx'): part_of_bytes(content) for half, content in halves.items()},
        f'triton/{name}/1/model.onnx': part_of_bytes(whole),
        f'triton/{name}/config.pbtxt': part_of_bytes(triton_config(name, alphabet.size + 1).encode()),
    }


def onnx_metadata(config: Config, alphabet: Alphabet) -> dict[str, str]:
    """What the files say about themselves, as text (`metadata_props`).

    Window and step in milliseconds; `alphabet` is a JSON list of the labels, and the blank follows the last one. The
    labels of models of bytes are called '<0x01>' to '<0xFF>'.
    """
    features, export = config.features, config.export
    return {
        'version': str(GRAPH_VERSION),
        'alphabet': json.dumps(alphabet.labels, ensure_ascii=False),
        'sample_rate': str(features.sample_rate),
        'feature_win_len': str(features.window_ms),
        'feature_win_step': str(features.step_ms),
        'feature_backend': features.backend,
        'n_input': str(N_INPUT),
        'n_context': str(N_CONTEXT),
        'n_hidden': str(config.model.n_hidden),
        'beam_width': str(export.beam_width),
        'language': export.language,
        'model_name': export.model_name,
        'model_version': export.model_version,
    }


def whole_model(config: Config, weights: Weights, n_output: int) -> GraphBuilder:
    """Audio to log-probabilities.

    `samples` float32 `[batch, samples]` in [-1, 1] and `lengths` int32 `[batch]`, how many of them are the utterance's,
    to `log_probabilities` float32 `[batch, frames, n_output]` and `frames` int32 `[batch]`, how many of them are.
    """
    graph = GraphBuilder('deepspeech')
    samples, lengths = _audio(graph)
    mfccs, frames = add_mfccs(graph, samples, lengths, config.features)
    padded = graph.node('Pad', mfccs, graph.constant([0, N_CONTEXT, 0, 0, N_CONTEXT, 0]))
    log_probabilities, _ = add_acoustic_model(graph, padded, frames, weights, config.model)
    graph.output(
        'log_probabilities', cut_to_longest(graph, log_probabilities, frames), np.float32, [BATCH, FRAMES, n_output]
    )
    graph.output('frames', frames, np.int32, [BATCH])
    return graph


def mfcc_model(config: Config) -> GraphBuilder:
    """Audio as above to `mfccs` float32 `[batch, frames, N_INPUT]`, zeros behind the end, and `frames`."""
    graph = GraphBuilder('mfccs')
    samples, lengths = _audio(graph)
    mfccs, frames = add_mfccs(graph, samples, lengths, config.features)
    graph.output('mfccs', cut_to_longest(graph, mfccs, frames), np.float32, [BATCH, FRAMES, N_INPUT])
    graph.output('frames', frames, np.int32, [BATCH])
    return graph


def acoustic_model(config: Config, weights: Weights, n_output: int) -> GraphBuilder:
    """Frames of MFCCs, with the 9 before the first and the 9 behind the last, to their log-probabilities.

    `mfccs` float32 `[batch, 9 + frames + 9, N_INPUT]`, zeros beyond the ends of the audio; `frames` int32 `[batch]`,
    how many there are of each utterance; `state_c` and `state_h` float32 `[batch, n_hidden]`, zeros at the beginning.
    To `log_probabilities` float32 `[batch, frames, n_output]`, of which those behind `frames` mean nothing, and the
    state after `frames` frames, `new_state_c` and `new_state_h`.
    """
    graph = GraphBuilder('acoustic')
    state_shape: list[Dimension] = [BATCH, config.model.n_hidden]
    mfccs = graph.input('mfccs', np.float32, [BATCH, 'frames_and_context', N_INPUT])
    frames = graph.input('frames', np.int32, [BATCH])
    state = State(graph.input('state_c', np.float32, state_shape), graph.input('state_h', np.float32, state_shape))
    log_probabilities, new_state = add_acoustic_model(graph, mfccs, frames, weights, config.model, state)
    graph.output('log_probabilities', log_probabilities, np.float32, [BATCH, FRAMES, n_output])
    graph.output('new_state_c', new_state.c, np.float32, state_shape)
    graph.output('new_state_h', new_state.h, np.float32, state_shape)
    return graph


def _audio(graph: GraphBuilder) -> tuple[str, str]:
    return graph.input('samples', np.float32, [BATCH, SAMPLES]), graph.input('lengths', np.int32, [BATCH])
