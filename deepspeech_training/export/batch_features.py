"""MFCCs of a batch of audio in a TensorFlow graph, whatever the backend."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from deepspeech_training.config import N_INPUT, FeatureConfig
from deepspeech_training.export.feature_matrices import feature_matrices

BatchMfccs = Callable[[tf.Tensor], tf.Tensor]
"""From float32 `[batch, 1 + samples]` to float32 `[batch, frames, N_INPUT]`, of at least one window.

The first sample is the one before the first window, 0 at the beginning of an utterance.
"""


def make_batch_mfccs(features: FeatureConfig) -> BatchMfccs:
    """The function for the backend of `features`; its constants are made once, in the default graph."""
    if features.backend == 'python_speech_features':
        return _by_matrices(features)
    return _by_operations(features)


def _by_operations(features: FeatureConfig) -> BatchMfccs:
    """Those that the trainer uses; utterances take the place of a recording's channels."""

    def mfccs(samples: tf.Tensor) -> tf.Tensor:
        spectrogram = tf.raw_ops.AudioSpectrogram(
            input=tf.transpose(samples[:, 1:]),
            window_size=features.window_samples,
            stride=features.step_samples,
            magnitude_squared=True,
        )
        return tf.raw_ops.Mfcc(
            spectrogram=spectrogram,
            sample_rate=features.sample_rate,
            upper_frequency_limit=features.sample_rate / 2,
            dct_coefficient_count=N_INPUT,
        )

    return mfccs


def _by_matrices(features: FeatureConfig) -> BatchMfccs:
    """In float64; see `feature_matrices`."""
    matrices = feature_matrices(features)
    spectrum, filters, cepstrum = map(tf.constant, (matrices.spectrum, matrices.filters, matrices.cepstrum))

    def mfccs(samples: tf.Tensor) -> tf.Tensor:
        width, step = 1 + features.window_samples, features.step_samples
        frames = 1 + (tf.shape(samples)[1] - width) // step
        starts = step * tf.range(frames)
        windows = tf.gather(samples, starts[:, tf.newaxis] + tf.range(width), axis=1)
        rows = tf.reshape(tf.cast(windows, tf.float64), [-1, width])
        real, imaginary = tf.split(tf.matmul(rows, spectrum), 2, axis=1)
        power = tf.square(real) + tf.square(imaginary)
        energies = tf.matmul(tf.sqrt(power) if matrices.magnitude else power, filters)
        cepstra = tf.matmul(tf.math.log(tf.maximum(energies, matrices.least)), cepstrum)
        return tf.reshape(tf.cast(cepstra, tf.float32), [-1, frames, N_INPUT])

    return mfccs
