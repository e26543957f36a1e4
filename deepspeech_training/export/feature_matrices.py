"""MFCCs as a chain of matrices: what a runtime computes that has no operation for them.

Whatever the backend, a frame of samples becomes a spectrum (one matrix), the spectrum energies of filters (squares, and
another matrix), and their logarithms cepstral coefficients (the last one). NumPy only, and in float64: of speech that
was resampled, or of silence with an offset, float32 would leave rounding errors where there is nothing else, and the
logarithm would make them as large as any feature (0.06 and 130, measured).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import python_speech_features

from deepspeech_training.audio.mfcc import CHANNELS, LEAST_ENERGY, mel_matrix
from deepspeech_training.audio.reference import INT16_SCALE, PREEMPHASIS
from deepspeech_training.config import N_INPUT, FeatureConfig

Matrix = npt.NDArray[np.float64]

LIFTER = 22
N_REFERENCE_FILTERS = 26
SMALLEST = float(np.finfo(np.float64).eps)  # stands for an energy of zero


@dataclass(frozen=True)
class FeatureMatrices:
    """`log(max(energies, least)) @ cepstrum`, with energies that follow from `frame @ spectrum`.

    A frame is a window, and before it the sample that precedes it, 0 at the beginning of an utterance.

    `spectrum`: `[1 + window, 2 * bins]`, to the real parts of all bins, then the imaginary ones. Squares of the two are
    added up; of the sums the roots are taken if `magnitude`. `filters`: `[bins, n]`, from these to energies.
    `cepstrum`: `[n, N_INPUT]`.
    """

    spectrum: Matrix
    magnitude: bool
    filters: Matrix
    least: float
    cepstrum: Matrix


def feature_matrices(features: FeatureConfig) -> FeatureMatrices:
    """Those of the backend that the model was trained with."""
    return reference_matrices(features) if features.backend == 'python_speech_features' else _of_tensorflow(features)


def reference_matrices(features: FeatureConfig) -> FeatureMatrices:
    """What python_speech_features does: pre-emphasis, Hamming window, power, mel filters, cosines and lifter.

    The coefficient 0 is the logarithm of all bins' energy, so that is one more filter.
    """
    size = features.window_samples
    emphasis = np.eye(1 + size, size, k=-1) - PREEMPHASIS * np.eye(1 + size, size)
    scale = INT16_SCALE / math.sqrt(fft_size(features))
    filters = python_speech_features.get_filterbanks(N_REFERENCE_FILTERS, fft_size(features), features.sample_rate)
    cosines = _cosines(N_REFERENCE_FILTERS)
    cepstrum = np.zeros([1 + N_REFERENCE_FILTERS, N_INPUT])
    cepstrum[1:, 1:] = python_speech_features.lifter(cosines, LIFTER)[:, 1:]
    cepstrum[0, 0] = 1
    return FeatureMatrices(
        spectrum=_fourier(scale * emphasis * np.hamming(size), features),
        magnitude=False,
        filters=np.concatenate([np.ones([filters.shape[1], 1]), filters.T], axis=1),
        least=SMALLEST,
        cepstrum=cepstrum,
    )


def fft_size(features: FeatureConfig) -> int:
    """The shortest power of two that holds a window."""
    return 1 << (features.window_samples - 1).bit_length()


def _of_tensorflow(features: FeatureConfig) -> FeatureMatrices:
    """What `AudioSpectrogram` and `Mfcc` do: periodic Hann window, magnitudes, mel filters, orthonormal cosines."""
    size = features.window_samples
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    window = np.concatenate([np.zeros([1, size]), np.diag(hann)])
    return FeatureMatrices(
        spectrum=_fourier(window, features),
        magnitude=True,
        filters=mel_matrix(features.sample_rate, fft_size(features) // 2 + 1),
        least=LEAST_ENERGY,
        cepstrum=_cosines(CHANNELS),
    )


def _fourier(windowed: Matrix, features: FeatureConfig) -> Matrix:
    """The rows of `windowed` `[n, window]` to the real and imaginary parts of their spectra, `[n, 2 * bins]`."""
    spectrum = np.fft.rfft(windowed, fft_size(features), axis=1)
    return np.concatenate([spectrum.real, spectrum.imag], axis=1)


def _cosines(channels: int) -> Matrix:
    """The orthonormal discrete cosine transform (type 2) of `channels` values, transposed: `[channels, N_INPUT]`.

    Coefficient 0 is not scaled apart from the others.
    """
    positions = (np.arange(channels) + 0.5) * math.pi / channels
    return math.sqrt(2 / channels) * np.cos(np.outer(positions, np.arange(N_INPUT)))
