"""Audio to MFCCs, inside the graph, as DeepSpeech computes them."""

from __future__ import annotations

import tensorflow as tf

from deepspeech_training.config import N_INPUT, FeatureConfig


def compute_mfccs(samples: tf.Tensor, features: FeatureConfig) -> tf.Tensor:
    """MFCCs of one utterance.

    `samples`: float32 `[samples]`, mono, at `features.sample_rate` Hz, in [-1, 1]: 16-bit values divided by 32768, as
    soundfile and `tf.audio.decode_wav` both do. (With 32767 the MFCCs are off by 4e-4, more than they may be.)
    Returns float32 `[frames, N_INPUT]`, `features.frames(samples)` frames; none for less than one window.
    """
    spectrogram = tf.raw_ops.AudioSpectrogram(
        input=tf.expand_dims(samples, -1),
        window_size=features.window_samples,
        stride=features.step_samples,
        magnitude_squared=True,
    )
    mfccs = tf.raw_ops.Mfcc(
        spectrogram=spectrogram,
        sample_rate=features.sample_rate,
        upper_frequency_limit=features.sample_rate / 2,
        dct_coefficient_count=N_INPUT,
    )
    return tf.reshape(mfccs, [-1, N_INPUT])
