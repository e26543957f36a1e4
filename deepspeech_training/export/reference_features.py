"""The MFCCs of python_speech_features for one window, in operations that DeepSpeech's client has.

`audio.reference` computes these features of whole files in NumPy. Everything up to the spectrum is linear, so it is one
matrix here; then follow squares, the mel filters, logarithms, and one matrix for cosine transform and lifter.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from deepspeech_training.audio.mfcc import LEAST_ENERGY
from deepspeech_training.config import FeatureConfig
from deepspeech_training.export.feature_matrices import (
    SMALLEST,
    FeatureMatrices,
    Matrix,
    reference_matrices,
)


def window_reference_mfccs(samples: tf.Tensor, features: FeatureConfig, *, has_log: bool = False) -> tf.Tensor:
    """MFCCs `[1, N_INPUT]` of one window: `samples` float32 `[features.window_samples]` in [-1, 1].

    A whole file's pre-emphasis reaches back to the sample before the window, which a client does not hand over: it is
    taken to equal the window's first one. (Without any, as for the first sample of a file, MFCCs of speech were off by
    2.5 times as much.) But for this, the result is that of `audio.reference.reference_mfccs`.
    `has_log`: the runtime has an operation for logarithms, as TensorFlow Lite does, in all its versions.
    """
    matrices = reference_matrices(features)
    spectrum = tf.matmul(tf.expand_dims(samples, 0), _constant(_spectrum_matrix(matrices)))
    filters = np.concatenate([matrices.filters, matrices.filters])  # of the squares of both parts
    energies = tf.matmul(_squares(spectrum), _constant(filters))
    if has_log:
        return tf.matmul(tf.math.log(tf.maximum(energies, SMALLEST)), _constant(matrices.cepstrum))
    return _cepstra(energies, matrices.cepstrum)


def _constant(matrix: Matrix) -> tf.Tensor:
    return tf.constant(matrix.astype(np.float32))


def _squares(values: tf.Tensor) -> tf.Tensor:
    """Not `values * values`: the client's runtime would make a `Square` of it, which it lacks."""
    return tf.math.squared_difference(values, 0.0)


def _spectrum_matrix(matrices: FeatureMatrices) -> Matrix:
    """From samples to real and imaginary parts, `[window, 2 * bins]`; the first one is also the one before it."""
    spectrum = matrices.spectrum[1:].copy()
    spectrum[0] += matrices.spectrum[0]
    return spectrum


def _cepstra(energies: tf.Tensor, cepstrum: Matrix) -> tf.Tensor:
    """`log(energies)` `[1, n]` times `cepstrum` `[n, N_INPUT]`.

    The client's runtime has no `Log`. But its `Mfcc` takes logarithms: of mel channels, which are sums of the square
    roots of a spectrum's bins in weighted shares, and it ends with a cosine transform, which has an inverse. So each
    energy goes, squared, into a bin of its own in a made-up spectrum, three channels apart from the next, so that no
    channel gets a share of two. At a sample rate of 1 Hz the mel scale is all but linear, and a bin's share in its
    channel at least 0.99. (Off from `log` by less than 3e-5 between exp(-27) and exp(27).)
    """
    n = int(energies.shape[1])
    channels = 3 * n
    bins = channels + 2
    used_bins = 3 * np.arange(n) + 2
    used_channels = used_bins - 1
    scale = LEAST_ENERGY / SMALLEST  # so that zero becomes SMALLEST, as there
    spread = np.zeros([n, bins])
    spread[np.arange(n), used_bins] = _channel_shares(used_bins, used_channels, bins, channels) ** -2.0
    scaled = energies * scale
    transformed = tf.raw_ops.Mfcc(
        spectrogram=tf.expand_dims(tf.matmul(_squares(scaled), _constant(spread)), 0),
        sample_rate=1,
        lower_frequency_limit=0.0,
        upper_frequency_limit=0.5,
        filterbank_channel_count=channels,
        dct_coefficient_count=channels,
    )
    inverse = _mfcc_cosines(channels)
    inverse[:, 0] /= 2
    logarithms_to_result = inverse[used_channels].T @ cepstrum
    offset = -math.log(scale) * cepstrum.sum(axis=0)
    result = tf.matmul(tf.reshape(transformed, [-1, channels]), _constant(logarithms_to_result))
    return tf.nn.bias_add(result, _constant(offset))


def _mfcc_cosines(channels: int) -> Matrix:
    """The cosine transform inside `Mfcc`, transposed: `[channel, coefficient]`. All but column 0 are orthonormal."""
    positions = (np.arange(channels) + 0.5) * math.pi / channels
    return math.sqrt(2 / channels) * np.cos(np.outer(positions, np.arange(channels)))


def _channel_shares(
    used_bins: npt.NDArray[np.int_], used_channels: npt.NDArray[np.int_], bins: int, channels: int
) -> Matrix:
    """The share of each of `used_bins` that `Mfcc` puts into the channel of `used_channels`.

    Channels are centred at equal distances on the mel scale; a bin is shared by the two nearest, linearly.
    """
    frequencies = 0.5 * used_bins / (bins - 1)
    mels = np.log1p(frequencies / 700) / math.log1p(0.5 / 700)  # from 0 to 1
    positions = mels * (channels + 1) - 1
    return 1 - np.abs(positions - used_channels)
