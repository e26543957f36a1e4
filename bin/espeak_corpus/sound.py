"""Samples as files."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import soxr


def write_wav(path: Path, spoken: bytes, from_rate: int, to_rate: int) -> int:
    """Resamples 16 bit samples (little endian, mono) from one rate to another (Hz) and writes them.

    The folder is made where it is missing. Returns the number of samples written.
    """
    samples = resample(np.frombuffer(spoken, dtype='<i2'), from_rate, to_rate)
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), 'wb') as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(to_rate)
        file.writeframes(samples.astype('<i2').tobytes())
    return len(samples)


def resample(samples: np.ndarray, from_rate: int, to_rate: int) -> np.ndarray:
    """int16 [samples] at one rate (Hz) to int16 at another, without soxr's dither, which is random."""
    if from_rate == to_rate:
        return samples
    resampled = soxr.resample(samples.astype(np.float32), from_rate, to_rate, quality='HQ')
    return np.clip(np.rint(resampled), -(2**15), 2**15 - 1).astype(np.int16)
