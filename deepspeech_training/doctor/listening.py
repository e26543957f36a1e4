"""What one recording is like: format, length, level, clipping, silence, and a hash of what is heard."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from deepspeech_training.audio.reading import audio_info, read_channels, wrong_channel
from deepspeech_training.errors import DataError

FULL_SCALE = {'PCM_U8': 127 / 128, 'PCM_S8': 127 / 128, 'ULAW': 32124 / 32768, 'ALAW': 32256 / 32768}
"""The largest positive value of a sample format; that of the others is 16-bit audio's or more."""
FULL_SCALE_OF_OTHERS = 32767 / 32768
CLIPPED_RUN = 3  # samples; a peak touches full scale with fewer

FRAME_MS = 20  # of levels
SILENCE_BELOW_LOUDEST = 10 ** (-30 / 20)
SILENCE = 10 ** (-60 / 20)  # of full scale: below this nothing is heard, however quiet the rest


class Recording(NamedTuple):
    """One audio file, decoded and measured. Levels: 1 is full scale."""

    size: int  # bytes
    frames: int  # samples of each channel
    sample_rate: int  # Hz
    channels: int
    format: str  # as libsndfile names it: 'WAV PCM_16'
    peak: float  # of what a training hears, as are the following
    level: float  # root mean square of what is no silence
    offset: float  # mean
    active: float  # share of the time that is no silence
    leading: float  # seconds of silence before
    trailing: float  # and behind
    clipped: float  # share of samples of all channels in runs at full scale
    clipped_run: int  # samples of the longest
    digest: int  # of sample rate and samples: 64 bits


def listen(path: str, content: bytes, channel: int = 0) -> Recording:
    """Measures the audio file `path`, whose bytes are `content`.

    `channel`: the one that a training picks, counted from 1; 0: the mean of all.

    Raises `DataError` for what a training could not read either.
    """
    audio_info(path, content)  # whether it is whole
    read = read_channels(path, content)
    samples, rate = read.samples, read.sample_rate
    if channel > samples.shape[1]:
        raise DataError(f'{path}: {wrong_channel(samples.shape[1], channel)}')
    mono = samples[:, channel - 1] if channel else samples.mean(axis=1, dtype=np.float32)
    clipped, longest = clipping(samples, FULL_SCALE.get(read.subtype, FULL_SCALE_OF_OTHERS))
    active, leading, trailing, level = activity(mono, rate)
    return Recording(
        size=len(content),
        frames=len(samples),
        sample_rate=rate,
        channels=samples.shape[1],
        format=f'{read.format} {read.subtype}',
        peak=float(np.abs(mono).max(initial=0)),
        level=level,
        offset=float(mono.mean(dtype=np.float64)) if len(mono) else 0.0,
        active=active,
        leading=leading,
        trailing=trailing,
        clipped=clipped,
        clipped_run=longest,
        digest=digest(samples, rate),
    )


def clipping(samples: npt.NDArray[np.float32], full_scale: float) -> tuple[float, int]:
    """The share of `samples` `[frames, channels]` that lie in runs at full scale, and the longest such run."""
    total, longest = 0, 0
    for channel in samples.T:
        extreme = np.abs(channel) >= np.float32(full_scale)
        if not extreme.any():
            continue
        edges = np.flatnonzero(np.diff(extreme, prepend=False, append=False))
        runs = edges[1::2] - edges[::2]
        runs = runs[runs >= CLIPPED_RUN]
        total += int(runs.sum())
        longest = max(longest, int(runs.max(initial=0)))
    return total / max(samples.size, 1), longest


def activity(samples: npt.NDArray[np.float32], rate: int) -> tuple[float, float, float, float]:
    """Of audio `[samples]`: the share that is no silence, seconds of silence before and behind, and the RMS between.

    Silence is 20 ms whose RMS is 30 dB below that of the loudest 20 ms, or below -60 dB of full scale.
    """
    length = max(1, rate * FRAME_MS // 1000)
    count = len(samples) // length
    if not count:
        return 0.0, 0.0, 0.0, 0.0
    frames = samples[: count * length].reshape(count, length)
    power = np.einsum('ij,ij->i', frames, frames, dtype=np.float64) / length
    threshold = max(float(power.max()) * SILENCE_BELOW_LOUDEST**2, SILENCE**2)
    loud = np.flatnonzero(power > threshold)
    if not len(loud):
        return 0.0, len(samples) / rate, len(samples) / rate, 0.0
    leading = float(loud[0]) * length / rate
    trailing = (len(samples) - (float(loud[-1]) + 1) * length) / rate
    return len(loud) / count, leading, trailing, float(np.sqrt(power[loud].mean()))


def digest(samples: npt.NDArray[np.float32], rate: int) -> int:
    """A hash of `samples` `[frames, channels]`: the same, however they were stored without loss."""
    hashed = hashlib.blake2b(np.array([rate, samples.shape[1]], '<i8').tobytes(), digest_size=8)
    hashed.update(np.ascontiguousarray(samples, '<f4').data)
    return int.from_bytes(hashed.digest(), 'little')
