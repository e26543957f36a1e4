"""The checkpoint's weights, for formats that build their graph from NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import tensorflow as tf

from deepspeech_training.checkpoints import CheckpointStore, GraphVariables
from deepspeech_training.config import N_INPUT, Config
from deepspeech_training.graphs import geometry
from deepspeech_training.model.acoustic import create_model
from deepspeech_training.text.alphabet import Alphabet

tfv1 = tf.compat.v1

Weights = Mapping[str, np.ndarray]
"""By the names that DeepSpeech's checkpoints give the variables."""


def read_weights(config: Config, alphabet: Alphabet) -> Weights:
    """All weights of the checkpoint that `config` names.

    Raises `CheckpointError` where there is none or it does not fit the flags.
    """
    with tf.Graph().as_default():
        frames = tf.zeros([1, 1, N_INPUT])
        model = replace(config.model, compute_type='float32')
        create_model(frames, None, model, alphabet.size + 1, training=False, lstm='block')
        variables = GraphVariables()
        store = CheckpointStore(config.checkpoints, geometry(config, alphabet), variables)
        proto = tfv1.ConfigProto(device_count={'GPU': 0})  # nothing is computed, and a GPU's memory may be taken
        with tfv1.Session(config=proto) as session:
            store.restore_for_evaluation(session)
            return variables.read(session)
