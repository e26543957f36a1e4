"""What an exported graph says about itself: the `metadata_*` nodes that clients read."""

from __future__ import annotations

import tensorflow as tf

from deepspeech_training.config import Config
from deepspeech_training.text.alphabet import Alphabet

GRAPH_VERSION = 6
"""DeepSpeech 0.9's version of what an exported graph's nodes are and mean. Clients refuse lower ones than their own."""


def create_metadata(config: Config, alphabet: Alphabet) -> dict[str, tf.Tensor]:
    """The `metadata_*` constants, each of shape `[1]`, in the default graph: name to tensor.

    Integers are int32: sample rate in Hz, window and step in milliseconds. Strings are UTF-8, except for the alphabet,
    which is DeepSpeech's serialization (`Alphabet.serialize`).
    """
    features, export = config.features, config.export
    values: dict[str, int | bytes] = {
        'metadata_version': GRAPH_VERSION,
        'metadata_sample_rate': features.sample_rate,
        'metadata_feature_win_len': features.window_ms,
        'metadata_feature_win_step': features.step_ms,
        'metadata_feature_backend': features.backend.encode(),
        'metadata_beam_width': export.beam_width,
        'metadata_alphabet': alphabet.serialize(),
        'metadata_language': export.language.encode(),
    }
    return {name: tf.constant([value], name=name) for name, value in values.items()}
