"""The features of training without TensorFlow: MFCCs in NumPy, of whole recordings and of ones that arrive in pieces.

Exported models run where TensorFlow is not installed, and its MFCCs of one window at a time cost a call each.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from deepspeech_training.audio.reference import (
    mfccs_of_reference_spectrogram,
    reference_mfccs,
    reference_spectrogram,
)
from deepspeech_training.config import N_INPUT, FeatureConfig

Samples = npt.NDArray[np.float32]
Matrix = npt.NDArray[np.float64]

CHANNELS = 40
LOWEST = 20.0  # Hz
LEAST_ENERGY = 1e-12  # of a channel, before the logarithm
BLOCK = 4096  # frames computed at a time, so that hours of audio do not fill the memory
FEW = 24
"""Frames whose product is too small for OpenBLAS to share it among threads, which hinder each other where many threads
compute features."""


class MfccComputer:
    """MFCCs as `features` says, those that the model was trained with."""

    def __init__(self, features: FeatureConfig) -> None:
        self.features = features
        if features.backend == 'tensorflow':
            self._window = _hann(features.window_samples)
            self._fft_size = 1 << (features.window_samples - 1).bit_length()
            self._channels = mel_matrix(features.sample_rate, self._fft_size // 2 + 1)
            self._cosines = _cosine_matrix()

    def __call__(self, samples: Samples, before: float = 0.0) -> npt.NDArray[np.float32]:
        """Float32 `[frames, 26]`, `features.frames(len(samples))` of them, for `samples` `[samples]` in [-1, 1].

        `before`: the sample before the first one, 0 where there is none.
        """
        if self.features.backend == 'python_speech_features':
            return reference_mfccs(samples, self.features, before)
        frames = self.features.frames(len(samples))
        mfccs = np.empty([frames, N_INPUT], np.float32)
        if frames:
            windows = np.lib.stride_tricks.sliding_window_view(samples, self.features.window_samples)
            windows = windows[:: self.features.step_samples]
            for start in range(0, frames, BLOCK):
                mfccs[start : start + BLOCK] = self._tensorflow_mfccs(windows[start : start + BLOCK])
        return mfccs

    def spectrogram(self, samples: Samples) -> npt.NDArray[np.float32]:
        """Power of `samples` `[samples]`, at least one window: float32 `[frames, bins]`, at the backend's own scale."""
        if self.features.backend == 'python_speech_features':
            return reference_spectrogram(samples, self.features)
        windows = np.lib.stride_tricks.sliding_window_view(samples, self.features.window_samples)
        return self._energies(windows[:: self.features.step_samples])

    def from_spectrogram(self, spectrogram: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """MFCCs `[frames, 26]` of a `spectrogram` of this computer's, which may have been changed."""
        mfccs = np.empty([len(spectrogram), N_INPUT], np.float32)
        for start in range(0, len(spectrogram), FEW):
            part = spectrogram[start : start + FEW]
            if self.features.backend == 'python_speech_features':
                mfccs[start : start + FEW] = mfccs_of_reference_spectrogram(part, self.features)
            else:
                mfccs[start : start + FEW] = self._mfccs_of(part)
        return mfccs

    def _tensorflow_mfccs(self, windows: Samples) -> npt.NDArray[np.float32]:
        """What TensorFlow's `AudioSpectrogram` and `Mfcc` compute of windows `[frames, window_samples]`."""
        return self._mfccs_of(self._energies(windows))

    def _energies(self, windows: Samples) -> npt.NDArray[np.float32]:
        """Power `[frames, bins]` of windows `[frames, window_samples]`."""
        spectrum = np.fft.rfft(windows * self._window, self._fft_size, axis=1)
        energies: npt.NDArray[np.float32] = (spectrum.real**2 + spectrum.imag**2).astype(np.float32)
        return energies

    def _mfccs_of(self, energies: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        channels = np.sqrt(energies, dtype=np.float64) @ self._channels
        mfccs: npt.NDArray[np.float32] = (np.log(np.maximum(channels, LEAST_ENERGY)) @ self._cosines).astype(np.float32)
        return mfccs


class MfccStream:
    """MFCCs of audio that arrives in pieces: the same frames as those of the whole."""

    def __init__(self, computer: MfccComputer) -> None:
        self._computer = computer
        self._waiting = np.zeros(0, np.float32)  # from the beginning of the next frame on
        self._before = 0.0
        self._skip = 0  # samples that belong to no frame, where the step is longer than the window

    def feed(self, samples: Samples) -> npt.NDArray[np.float32]:
        """The frames `[n, 26]` that are complete with `samples`, any number of them."""
        features = self._computer.features
        self._waiting = np.concatenate([self._waiting, samples])
        self._drop(self._skip)
        mfccs = self._computer(self._waiting, self._before)
        self._drop(self._skip + len(mfccs) * features.step_samples)
        return mfccs

    def _drop(self, count: int) -> None:
        self._skip = max(0, count - len(self._waiting))
        count -= self._skip
        if count:
            self._before = float(self._waiting[count - 1])
            self._waiting = self._waiting[count:]


def _hann(size: int) -> Matrix:
    """The periodic Hann window."""
    return 0.5 - 0.5 * np.cos(2 * math.pi * np.arange(size) / size)


def mel_matrix(sample_rate: int, bins: int) -> Matrix:
    """`[bins, CHANNELS]`: the share of each bin's magnitude in each channel of TensorFlow's `Mfcc`.

    Channels are centred at equal distances on the mel scale between `LOWEST` and half the sample rate; a bin is
    shared by the two nearest, linearly.
    """
    width = 0.5 * sample_rate / (bins - 1)  # Hz
    highest = _mel(sample_rate / 2)
    spacing = (highest - _mel(LOWEST)) / (CHANNELS + 1)
    shares = np.zeros([bins, CHANNELS])
    for number in range(int(1.5 + LOWEST / width), int(sample_rate / 2 / width) + 1):
        position = (_mel(number * width) - _mel(LOWEST)) / spacing - 1  # in channels
        channel = math.ceil(position) - 1  # the one below: a bin at a centre counts as below it
        for neighbour, share in ((channel, channel + 1 - position), (channel + 1, position - channel)):
            if 0 <= neighbour < CHANNELS:
                shares[number, neighbour] = share
    return shares


def _mel(hertz: float) -> float:
    return 1127 * math.log1p(hertz / 700)


def _cosine_matrix() -> Matrix:
    """`[CHANNELS, N_INPUT]`: the cosine transform; coefficient 0 is not scaled apart from the others."""
    positions = (np.arange(CHANNELS) + 0.5) * math.pi / CHANNELS
    return math.sqrt(2 / CHANNELS) * np.cos(np.outer(positions, np.arange(N_INPUT)))
