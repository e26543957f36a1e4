"""Audio files as mono samples at the model's sample rate."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from deepspeech_training.config import FeatureConfig
from deepspeech_training.errors import DataError

READ_BUFFER = 1024 * 1024  # bytes


@dataclass(frozen=True)
class AudioInfo:
    """What the header of an audio file says."""

    frames: int  # samples of each channel
    sample_rate: int  # Hz
    channels: int

    @property
    def duration(self) -> float:
        """Seconds."""
        return self.frames / self.sample_rate


def audio_info(path: str) -> AudioInfo:
    """Length and format of an audio file, from its header. Raises `DataError` for what cannot be read as audio."""
    with _open_audio(path) as file:
        return AudioInfo(file.frames, file.samplerate, file.channels)


def read_audio(path: str, features: FeatureConfig, buffer_size: int = READ_BUFFER) -> npt.NDArray[np.float32]:
    """The samples of an audio file: float32 `[samples]` in [-1, 1], mono, at `features.sample_rate`.

    Any format that libsndfile knows by its content (WAV, FLAC, OGG, MP3, ...), whatever the file's name. Full scale of
    16 bits is 32768. Several channels are averaged; another sample rate is converted by soxr. The first `buffer_size`
    bytes are asked for at once, which helps on network file systems.

    Raises `DataError` for what cannot be read as audio, and for another rate where `normalize_sample_rate` is off.
    """
    with _open_audio(path, buffer_size) as file:
        rate = file.samplerate
        if rate != features.sample_rate and not features.normalize_sample_rate:
            raise DataError(wrong_rate(path, rate, features.sample_rate))
        samples = file.read(dtype='float32', always_2d=True)
    mono = samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1, dtype=np.float32)
    if rate != features.sample_rate:
        mono = soxr.resample(mono, rate, features.sample_rate)
    return np.ascontiguousarray(mono, dtype=np.float32)


def resampled_length(samples: int, rate: int, new_rate: int) -> int:
    """How many samples soxr makes of `samples` when it converts from `rate` to `new_rate`."""
    return (2 * samples * new_rate + rate) // (2 * rate)


def wrong_rate(path: str, rate: int, wanted: int) -> str:
    """The message for a file that would have to be resampled where that is not wanted."""
    return f'{path}: its sample rate is {rate} Hz, not {wanted} Hz; --normalize_sample_rate converts it while reading'


@contextmanager
def _open_audio(path: str, buffer_size: int = 0) -> Iterator[soundfile.SoundFile]:
    """An audio file, opened by descriptor: by name, libsndfile takes a file's suffix for its format."""
    try:
        with open(path, 'rb', buffering=0) as raw:
            if buffer_size and hasattr(os, 'posix_fadvise'):
                os.posix_fadvise(raw.fileno(), 0, buffer_size, os.POSIX_FADV_WILLNEED)
            with soundfile.SoundFile(raw.fileno(), closefd=False) as file:
                yield file
    except OSError as error:
        raise DataError(f'{path}: cannot be read: {error.strerror}') from error
    except soundfile.LibsndfileError as error:
        raise DataError(f'{path}: cannot be read as audio: {error.error_string}') from error
