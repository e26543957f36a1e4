"""MFCCs by python_speech_features, as DeepSpeech computed them before it took TensorFlow's."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import python_speech_features

from deepspeech_training.config import N_INPUT, FeatureConfig

INT16_SCALE = 32768.0


PREEMPHASIS = 0.97


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
    frames = features.frames(len(samples))
    if not frames:
        return np.zeros([0, N_INPUT], np.float32)
    used = features.window_samples + (frames - 1) * features.step_samples
    scaled = samples[:used] * np.float32(INT16_SCALE)
    scaled[1:] -= np.float32(PREEMPHASIS) * scaled[:-1]
    scaled[0] -= np.float32(PREEMPHASIS * INT16_SCALE * before)
    mfccs = python_speech_features.mfcc(
        scaled,
        samplerate=features.sample_rate,
        winlen=features.window_samples / features.sample_rate,
        winstep=features.step_samples / features.sample_rate,
        numcep=N_INPUT,
        nfilt=26,
        nfft=1 << (features.window_samples - 1).bit_length(),
        preemph=0,  # done above
        ceplifter=22,
        appendEnergy=True,
        winfunc=np.hamming,
    )
    return mfccs.astype(np.float32)
