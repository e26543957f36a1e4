"""Which LSTM runs, and its parameters."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from deepspeech_training.config import ModelConfig, ParallelConfig
from deepspeech_training.errors import FlagError
from deepspeech_training.model.lstm.block import block_lstm
from deepspeech_training.model.lstm.cudnn import cudnn_lstm
from deepspeech_training.model.lstm.hoisted import hoisted_lstm
from deepspeech_training.model.lstm.state import LSTM, LSTMState
from deepspeech_training.model.lstm.unrolled import unrolled_lstm
from deepspeech_training.model.variables import derived_seed, uniform_fan_avg, variable_on_cpu

tfv1 = tf.compat.v1

LSTM_IMPLEMENTATIONS: Mapping[str, LSTM] = {
    'hoisted': hoisted_lstm,
    'block': block_lstm,
    'cudnn': cudnn_lstm,
    'unrolled': unrolled_lstm,
}

SCOPE = 'cudnn_lstm/rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell'
"""Where DeepSpeech's checkpoints have kernel and bias, whatever computed them."""


def choose_lstm(model: ModelConfig, parallel: ParallelConfig, gpus: bool) -> str:
    """The name of the implementation to train and evaluate with; `gpus`: whether there are any to use.

    Raises `FlagError` when cuDNN is asked for without a GPU, or a name is not in the registry.
    """
    name = 'cudnn' if parallel.train_cudnn else model.lstm
    if name == 'auto':
        return 'block' if gpus else 'hoisted'
    if name not in LSTM_IMPLEMENTATIONS:
        raise FlagError(
            f'LSTM implementation {name!r} is unknown: choose one of auto, {", ".join(LSTM_IMPLEMENTATIONS)}'
        )
    if name == 'cudnn' and not gpus:
        raise FlagError('--train_cudnn needs a GPU that TensorFlow can use, and it sees none: leave the flag out')
    return name


def _open_forget_gate(n_hidden: int) -> tf.keras.initializers.Initializer:
    """0, but 1 for the forget gate, so that a new cell remembers (Gers et al. 2000, Jozefowicz et al. 2015)."""
    return tfv1.constant_initializer([0.0] * 2 * n_hidden + [1.0] * n_hidden + [0.0] * n_hidden)


def lstm_layer(
    inputs: tf.Tensor,
    lengths: tf.Tensor | None,
    state: LSTMState,
    *,
    implementation: str,
    training: bool,
    seed: int | None = None,
) -> tuple[tf.Tensor, LSTMState]:
    """The LSTM with its variables, named as in DeepSpeech's checkpoints. Shapes as in `state.LSTM`."""
    n_hidden = int(inputs.shape[2])
    with tfv1.variable_scope(SCOPE, reuse=tfv1.AUTO_REUSE):
        initializer = uniform_fan_avg(derived_seed(seed, f'{SCOPE}/kernel'))
        kernel = variable_on_cpu('kernel', [2 * n_hidden, 4 * n_hidden], initializer)
        bias = variable_on_cpu('bias', [4 * n_hidden], _open_forget_gate(n_hidden))
    run = LSTM_IMPLEMENTATIONS[implementation]
    return run(inputs, lengths, tf.identity(kernel), tf.identity(bias), state, training=training)
