"""A checkpoint with weights that say two letters, whatever is heard."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from deepspeech_training.config import Config
from deepspeech_training.export.inference_graph import create_inference_graph
from deepspeech_training.text.alphabet import Alphabet

tfv1 = tf.compat.v1


def write_checkpoint_that_says(word: str, alphabet: Alphabet, config: Config) -> None:
    """The first letter at first; the second one from when the LSTM's cell has filled up, half a second later."""
    first, second = alphabet.encode(word)
    with tf.Graph().as_default(), tfv1.Session() as session:
        create_inference_graph(config, alphabet.size + 1, lstm='block')
        values = {variable.op.name: np.zeros(variable.shape, np.float32) for variable in tfv1.global_variables()}
        (gates,) = (value for name, value in values.items() if name.endswith('cudnn_compatible_lstm_cell/bias'))
        gates[:] = np.repeat([-4, 9, 9, 9], config.model.n_hidden)  # input, cell, forget, output
        values['layer_5/weights'][0, 0] = 20
        values['layer_6/weights'][0, second] = 4
        values['layer_6/bias'][first] = 30
        for variable in tfv1.global_variables():
            variable.load(values[variable.op.name], session)
        saver = tfv1.train.Saver()
        saver.save(session, f'{config.checkpoints.load_dir}/train', global_step=1, write_meta_graph=False)
