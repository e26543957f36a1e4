"""MFCCs by python_speech_features, as DeepSpeech computed them before it took TensorFlow's."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import python_speech_features
from python_speech_features import sigproc
from scipy.fft import dct

from deepspeech_training.config import N_INPUT, FeatureConfig

INT16_SCALE = 32768.0
PREEMPHASIS = 0.97
FILTERS, LIFTER = 26, 22


def reference_mfccs(
    samples: npt.NDArray[np.float32], features: FeatureConfig, before: float = 0.0
) -> npt.NDArray[np.float32]:
    """MFCCs of `samples` (float32 `[samples]` in [-1, 1]): float32 `[frames, 26]`.

    `before`: the sample before the first one, which pre-emphasis takes its share of; 0 at the beginning of a file.

    As DeepSpeech 0.2 and 0.3 called python_speech_features (`util/audio.py`): samples at the scale of 16 bits,
    pre-emphasis 0.97, Hamming window, 26 mel filters from 0 Hz to half the sample rate, 26 cepstral coefficients with
    lifter 22, the first replaced by the logarithm of the frame's energy; no further normalization. (DeepSpeech 0.1 used
    windows of 25 ms, left out every second frame and normalized each utterance.) The FFT is the shortest power of two
    that holds the window: 512 for 32 ms at 16 kHz, as there.

    The package also makes a last frame of what remains, padded with zeros; as with TensorFlow's MFCCs there are only
    frames of whole windows, `features.frames(len(samples))` of them.
    """
    if not features.frames(len(samples)):
        return np.zeros([0, N_INPUT], np.float32)
    mfccs = python_speech_features.mfcc(
        _emphasized(samples, features, before),
        samplerate=features.sample_rate,
        winlen=features.window_samples / features.sample_rate,
        winstep=features.step_samples / features.sample_rate,
        numcep=N_INPUT,
        nfilt=FILTERS,
        nfft=_fft_size(features),
        preemph=0,  # done above
        ceplifter=LIFTER,
        appendEnergy=True,
        winfunc=np.hamming,
    )
    return mfccs.astype(np.float32)


def reference_spectrogram(samples: npt.NDArray[np.float32], features: FeatureConfig) -> npt.NDArray[np.float32]:
    """The power spectra that `reference_mfccs` makes MFCCs of: float32 `[frames, bins]`; at least one window."""
    windows = np.lib.stride_tricks.sliding_window_view(_emphasized(samples, features), features.window_samples)
    shaped = windows[:: features.step_samples] * np.hamming(features.window_samples)
    power: npt.NDArray[np.float32] = sigproc.powspec(shaped, _fft_size(features)).astype(np.float32)
    return power


def mfccs_of_reference_spectrogram(
    spectrogram: npt.NDArray[np.float32], features: FeatureConfig
) -> npt.NDArray[np.float32]:
    """The other half of `reference_mfccs`: float32 `[frames, 26]` of `[frames, bins]`."""
    least = np.finfo(np.float64).eps
    power = spectrogram.astype(np.float64)
    filters = python_speech_features.get_filterbanks(FILTERS, _fft_size(features), features.sample_rate)
    channels = power @ filters.T
    logarithms = np.log(np.where(channels == 0, least, channels))
    cepstra = dct(logarithms, type=2, axis=1, norm='ortho')[:, :N_INPUT]
    mfccs = python_speech_features.lifter(cepstra, LIFTER)
    energies = power.sum(axis=1)
    mfccs[:, 0] = np.log(np.where(energies == 0, least, energies))
    return np.asarray(mfccs, np.float32)


def _emphasized(
    samples: npt.NDArray[np.float32], features: FeatureConfig, before: float = 0.0
) -> npt.NDArray[np.float64]:
    """What the whole windows in `samples` use of them, at the scale of 16 bits, after pre-emphasis.

    In double precision, as the package computes samples of 16 bits: where a filter's band is nearly empty, a float32
    FFT's rounding, which depends on how many frames it is given at once, shows in the logarithm.
    """
    used = features.window_samples + (features.frames(len(samples)) - 1) * features.step_samples
    scaled = samples[:used].astype(np.float64) * INT16_SCALE
    previous = np.concatenate([[before * INT16_SCALE], scaled[:-1]])
    return np.asarray(scaled - PREEMPHASIS * previous)


def _fft_size(features: FeatureConfig) -> int:
    return 1 << (features.window_samples - 1).bit_length()
