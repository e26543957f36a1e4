"""The graph that clients stream audio through: a window of samples to features, windows of features to characters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import tensorflow as tf

from deepspeech_training.config import N_CONTEXT, N_INPUT, Config
from deepspeech_training.export.reference_features import window_reference_mfccs
from deepspeech_training.model.acoustic import create_model
from deepspeech_training.model.features import compute_mfccs
from deepspeech_training.model.lstm import LSTMState

tfv1 = tf.compat.v1


@dataclass(frozen=True)
class InferenceGraph:
    """Tensors by the names that clients know them by."""

    inputs: dict[str, tf.Tensor]
    outputs: dict[str, tf.Tensor]


def create_inference_graph(config: Config, n_output: int, *, lstm: str, tflite: bool = False) -> InferenceGraph:
    """Builds DeepSpeech's inference graph in the default graph; `n_output` is the alphabet and the blank.

    Inputs: `input_samples` float32 `[window samples]`; `input_node` float32 `[batch, n_steps, window, N_INPUT]`, frames
    with their context; `input_lengths` int32 `[batch]`, how many of the `n_steps` are frames; `previous_state_c` and
    `previous_state_h` float32 `[batch, n_hidden]`, zeros at the beginning.
    Outputs: `mfccs` float32 `[1, N_INPUT]`, of `input_samples`; `logits` float32 `[n_steps, batch, n_output]`, which
    are probabilities (the name is DeepSpeech's); `new_state_c` and `new_state_h`.
    With `export_batch_size` 0, batch and steps can be of any size.
    `lstm` is a name in `model.lstm.LSTM_IMPLEMENTATIONS`. `tflite`: as the clients with TensorFlow Lite want
    it: without `input_lengths`, all of the `n_steps` are frames, and `logits` are `[n_steps * batch, n_output]`.
    """
    batch = config.export.batch_size or None
    n_steps = config.export.n_steps if batch else None
    n_hidden = config.model.n_hidden
    inputs = {
        'input_samples': _placeholder('input_samples', tf.float32, [config.features.window_samples]),
        'input_node': _placeholder('input_node', tf.float32, [batch, n_steps, 2 * N_CONTEXT + 1, N_INPUT]),
        'previous_state_c': _placeholder('previous_state_c', tf.float32, [batch, n_hidden]),
        'previous_state_h': _placeholder('previous_state_h', tf.float32, [batch, n_hidden]),
    }
    if not tflite:
        inputs['input_lengths'] = _placeholder('input_lengths', tf.int32, [batch])
    if config.features.backend == 'python_speech_features':
        mfccs = window_reference_mfccs(inputs['input_samples'], config.features, has_log=tflite)
    else:
        mfccs = compute_mfccs(inputs['input_samples'], config.features)
    model = create_model(
        inputs['input_node'],
        inputs.get('input_lengths'),
        replace(config.model, compute_type='float32'),  # what clients run
        n_output,
        training=False,
        lstm=lstm,
        initial_state=LSTMState(inputs['previous_state_c'], inputs['previous_state_h']),
    )
    logits = tf.reshape(model.logits, [-1, n_output]) if tflite else model.logits
    outputs = {
        'mfccs': tf.identity(mfccs, name='mfccs'),
        'logits': tf.nn.softmax(logits, name='logits'),
        'new_state_c': tf.identity(model.state.c, name='new_state_c'),
        'new_state_h': tf.identity(model.state.h, name='new_state_h'),
    }
    return InferenceGraph(inputs, outputs)


def _placeholder(name: str, dtype: tf.DType, shape: list[int | None]) -> tf.Tensor:
    return tfv1.placeholder(dtype, shape, name=name)
