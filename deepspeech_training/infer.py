"""Transcribes one audio file with a trained model."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from deepspeech_training.audio.reading import read_audio
from deepspeech_training.audio.reference import reference_mfccs
from deepspeech_training.checkpoints import CheckpointStore
from deepspeech_training.config import N_INPUT, Config, FeatureConfig
from deepspeech_training.decoding import make_decoder
from deepspeech_training.errors import DataError
from deepspeech_training.graphs import chosen_lstm, geometry, with_compute_type
from deepspeech_training.model.acoustic import create_model
from deepspeech_training.model.features import compute_mfccs
from deepspeech_training.text.alphabet import Alphabet


def one_shot_infer(config: Config, alphabet: Alphabet) -> str:
    """The transcript of the audio file `config.one_shot_infer`.

    Raises:
      DataError: the file cannot be read or is shorter than one window.
      CheckpointError: there is no checkpoint, or it does not fit.
    """
    samples = read_audio(config.one_shot_infer, config.features)
    if not config.features.frames(len(samples)):
        raise DataError(
            f'{config.one_shot_infer}: {1000 * len(samples) / config.features.sample_rate:.0f} ms of audio are '
            f'shorter than one window of {config.features.window_ms} ms'
        )
    decoder = make_decoder(alphabet, config.report.beam_width)
    try:
        return decoder.decode(compute_logits(config, alphabet, samples))
    finally:
        decoder.close()


def compute_logits(config: Config, alphabet: Alphabet, samples: np.ndarray) -> np.ndarray:
    """The logits [frames, n_output] of `samples` [n] at the configured rate, with the checkpoint's weights."""
    config = with_compute_type(config)
    with tf.Graph().as_default():
        features, feed, value = _features(config.features, samples)
        output = create_model(
            features[tf.newaxis],
            tf.shape(features)[:1],
            config.model,
            alphabet.size + 1,
            training=False,
            lstm=chosen_lstm(config),
        )
        store = CheckpointStore(config.checkpoints, geometry(config, alphabet))
        proto = tf.compat.v1.ConfigProto(allow_soft_placement=True)
        with tf.compat.v1.Session(config=proto) as session:
            store.restore_for_evaluation(session)
            logits: np.ndarray = session.run(output.logits[:, 0], {feed: value})
            return logits


def _features(features: FeatureConfig, samples: np.ndarray) -> tuple[tf.Tensor, tf.Tensor, np.ndarray]:
    """MFCCs [frames, N_INPUT] in the graph, the placeholder they need and its value."""
    if features.backend == 'python_speech_features':
        placeholder = tf.compat.v1.placeholder(tf.float32, [None, N_INPUT])
        return placeholder, placeholder, reference_mfccs(samples, features)
    placeholder = tf.compat.v1.placeholder(tf.float32, [None])
    return compute_mfccs(placeholder, features), placeholder, samples
