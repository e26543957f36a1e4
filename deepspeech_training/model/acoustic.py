"""The acoustic model: MFCCs to the logits of characters (Hannun et al. 2014, with an LSTM in one direction).

Three clipped-ReLU layers, of which the first sees each frame in its context, one LSTM, one more clipped-ReLU layer,
and the output layer. Names and shapes of the variables are those of DeepSpeech's checkpoints.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from deepspeech_training.config import N_INPUT, ModelConfig
from deepspeech_training.model.layers import WINDOW, Dropout, dense, dropout, linear, windows
from deepspeech_training.model.lstm import LSTMState, lstm_layer
from deepspeech_training.model.lstm.state import frame_mask, zero_state


class ModelOutput(NamedTuple):
    """Logits float32 `[frames, batch, n_output]`; the LSTM's state at the end of each utterance."""

    logits: tf.Tensor
    state: LSTMState


def create_model(
    features: tf.Tensor,
    lengths: tf.Tensor | None,
    model: ModelConfig,
    n_output: int,
    *,
    training: bool,
    lstm: str,
    initial_state: LSTMState | None = None,
    seed: int | None = None,
    stream: tf.Tensor | None = None,
) -> ModelOutput:
    """Builds the model; called again, it shares the variables.

    `features`: float32 `[batch, frames, N_INPUT]`; what stands behind the end of an utterance is never used.
    Or `[batch, frames, WINDOW, N_INPUT]`, each frame already with its context, for streaming clients.
    `lengths`: int32 `[batch]`, frames of each utterance; None: all of them.
    `training`: with dropout. `lstm`: a name in `LSTM_IMPLEMENTATIONS`. `initial_state`: zeros by default.
    `n_output`: characters and the blank, which is last. `seed`: for initial values and dropout. None: initial values
    follow `tf.compat.v1.set_random_seed`, dropout is the same in every run.
    `stream`: int64 scalar, a number of this batch alone: the same seed and number give the same dropout, on whatever
    tower and in whichever run. None: dropout is the same in each step.
    """
    first, second, third, fourth, fifth, sixth = model.dropout if training else (0.0,) * 6
    batch = tf.shape(features)[0]
    drop = Dropout(seed, stream)
    if features.shape.rank == 4:
        layer = tf.reshape(tf.transpose(features, [1, 0, 2, 3]), [-1, WINDOW * N_INPUT])
    else:
        features = features if lengths is None else _zero_behind_end(features, lengths)
        layer = windows(tf.cast(features, model.compute_type))
    for name, rate in (('layer_1', first), ('layer_2', second), ('layer_3', third)):
        layer = dense(name, layer, model, rate, drop)  # frames * batch rows

    state = initial_state or zero_state(batch, model.n_hidden)
    layer = tf.reshape(layer, [-1, batch, model.n_hidden])
    layer, state = lstm_layer(layer, lengths, state, implementation=lstm, training=training, seed=seed)
    layer = dropout('lstm', tf.reshape(layer, [-1, model.n_hidden]), fourth, drop)

    both = 1 - (1 - fifth) * (1 - sixth)
    layer = dense('layer_5', layer, model, both, drop)
    logits = linear('layer_6', layer, n_output, seed)
    return ModelOutput(tf.reshape(logits, [-1, batch, n_output]), state)


def _zero_behind_end(features: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Padding must not reach the last frames through their context, whatever it contains, NaN too."""
    mask = tf.transpose(frame_mask(lengths, tf.shape(features)[1]))
    return tf.where(tf.expand_dims(mask > 0, 2), features, tf.zeros_like(features))
