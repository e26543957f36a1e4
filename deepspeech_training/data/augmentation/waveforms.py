"""Augmentations of audio: float32 `[samples]`, full scale 1. Each returns new samples, as many as it was given.

None changes its input.
"""

from __future__ import annotations

import io
import math

import numpy as np
import numpy.typing as npt
import scipy.signal
import soundfile
import soxr

Samples = npt.NDArray[np.float32]

FULL_SCALE_PEAK = 3.0103
"""dBFS of a peak of 1: a sine at full scale has a mean of 0 dBFS (AES17)."""

COMB_DELAYS = (1.0, 1.1282, 1.2727, 1.4358)
"""Of the first reflection's delay; no ratio of two is near a simple fraction, so that echoes do not fall together."""

OPUS_RATES = (8000, 12000, 16000, 24000, 48000)  # Hz
LEAST_BITRATE, GREATEST_BITRATE = 6000, 256000  # what libsndfile asks libopus for


def level(samples: Samples) -> float:
    """The peak in dBFS; -infinity for silence."""
    peak = float(np.abs(samples).max(initial=0))
    return 20 * math.log10(peak) + FULL_SCALE_PEAK if peak else -math.inf


def with_peak_of(samples: Samples, other: Samples) -> Samples:
    """`samples`, as loud at its peak as `other`."""
    peak = float(np.abs(samples).max(initial=0))
    return samples * np.float32(np.abs(other).max(initial=0) / peak) if peak else samples


def volume(samples: Samples, dbfs: float) -> Samples:
    """The peak at `dbfs`; silence stays silence."""
    now = level(samples)
    return samples if math.isinf(now) else samples * np.float32(10 ** ((dbfs - now) / 20))


def overlay(samples: Samples, noise: Samples, snr: float) -> Samples:
    """`noise` `[samples]` added, with `snr` dB between the mean power of `samples` and its own; then the peak of
    before."""
    power = float(np.mean(np.square(samples, dtype=np.float64)))
    noise_power = float(np.mean(np.square(noise, dtype=np.float64)))
    if not power or not noise_power:
        return samples
    gain = math.sqrt(power / noise_power) * 10 ** (-snr / 20)
    return with_peak_of(samples + np.float32(gain) * noise, samples)


def reverb(samples: Samples, delay: float, decay: float, rate: int) -> Samples:
    """Echoes from parallel feedback combs (Schroeder 1962, without the all-pass filters); then the peak of before.

    `delay`: milliseconds to the first reflection. `decay`: dB from one reflection to the next.
    """
    gain = 10 ** (-decay / 20)
    wet = np.zeros_like(samples)
    for ratio in COMB_DELAYS:
        wet += comb(samples, max(1, round(delay * ratio * rate / 1000)), gain) - samples
    return with_peak_of(samples + wet / np.float32(math.sqrt(len(COMB_DELAYS))), samples)


def comb(samples: Samples, delay: int, gain: float) -> Samples:
    """y[n] = x[n] + gain * y[n - delay], for all samples of one period at a time."""
    if delay < 64:  # few samples a period: a filter of as many coefficients is faster
        filtered = scipy.signal.lfilter([1.0], [1.0, *[0.0] * (delay - 1), -gain], samples)
        return np.asarray(filtered, np.float32)
    periods = -(-len(samples) // delay)
    rows = np.zeros([periods, delay], np.float32)
    rows.ravel()[: len(samples)] = samples
    for number in range(1, periods):
        rows[number] += np.float32(gain) * rows[number - 1]
    return rows.ravel()[: len(samples)]


def resample(samples: Samples, rate: int, new_rate: int) -> Samples:
    """From `rate` to `new_rate` Hz and back: what is above half of the lower one is lost."""
    if rate == new_rate:
        return samples
    return fitted(soxr.resample(soxr.resample(samples, rate, new_rate), new_rate, rate), len(samples))


def codec(samples: Samples, bitrate: float, rate: int) -> Samples:
    """Encoded by Opus at `bitrate` bits a second and decoded again; libsndfile asks for 6,000 to 256,000."""
    opus_rate = min((each for each in OPUS_RATES if each >= rate), default=OPUS_RATES[-1])
    audio = samples if opus_rate == rate else soxr.resample(samples, rate, opus_rate)
    used = min(max(bitrate, LEAST_BITRATE), GREATEST_BITRATE)
    compression = 1 - (used - LEAST_BITRATE) / (GREATEST_BITRATE - LEAST_BITRATE)  # libsndfile's scale for Opus
    file = io.BytesIO()
    soundfile.write(file, np.clip(audio, -1, 1), opus_rate, 'OPUS', format='OGG', compression_level=compression)
    file.seek(0)
    decoded = soundfile.read(file, dtype='float32')[0]
    return fitted(decoded if opus_rate == rate else soxr.resample(decoded, opus_rate, rate), len(samples))


def fitted(samples: Samples, count: int) -> Samples:
    """Cut or padded with silence to `count` samples."""
    return np.pad(samples[:count], (0, max(0, count - len(samples))))
