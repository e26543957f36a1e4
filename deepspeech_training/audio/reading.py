"""Audio files as mono samples at the model's sample rate."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from deepspeech_training.audio.containers import ReadAt, blocks, ending_problem, frames_of_audio, header_problem
from deepspeech_training.config import FeatureConfig
from deepspeech_training.errors import DataError

READ_BUFFER = 1024 * 1024  # bytes

FLOAT_SUBTYPES = ('FLOAT', 'DOUBLE')
SUBTYPES_OF_16_BITS = ('PCM_16', 'PCM_S8', 'PCM_U8')  # or fewer
LOUDEST = 100.0
"""Floats beyond full scale are clipped, as other programs do; those so far beyond are not meant as audio."""

ERROR_WITHOUT_MEANING = 'File does not exist'
"""What libsndfile says of some damaged MP3 files that do."""


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


def audio_info(path: str, content: bytes | None = None) -> AudioInfo:
    """Length and format of an audio file, from its header; of compressed formats the last sample is read too.

    With `content` that is taken for the file's bytes, and `path` only names it.

    Raises `DataError` for what cannot be read as audio, for a header that cannot be right, and for a file that ends
    before the length its header promises (an interrupted copy: the transcript would not fit it).
    """
    with _open(path, content) as opened:
        file = opened.file
        info = AudioInfo(frames_of_audio(file), file.samplerate, file.channels)
        if problem := ending_problem(file, opened.read_at, opened.size):
            raise DataError(f'{path}: {problem}')
        return info


@dataclass(frozen=True)
class Channels:
    """What is in an audio file, before anything is made of it."""

    samples: npt.NDArray[np.float32]  # [samples, channels], full scale 1
    sample_rate: int  # Hz
    format: str  # as libsndfile names it: 'WAV', 'FLAC', ...
    subtype: str  # how samples are kept: 'PCM_16', 'ULAW', ...


def read_channels(path: str, content: bytes | None = None) -> Channels:
    """All channels of an audio file, as `read_audio` reads them. Raises `DataError` where that does."""
    with _open(path, content) as opened:
        file = opened.file
        samples = _read_all(file)
        if file.subtype in FLOAT_SUBTYPES and (problem := _float_problem(samples)):
            raise DataError(f'{path}: {problem}')
        return Channels(samples, file.samplerate, file.format, file.subtype)


def read_audio(
    path: str, features: FeatureConfig, buffer_size: int = READ_BUFFER, content: bytes | None = None
) -> npt.NDArray[np.float32]:
    """The samples of an audio file: float32 `[samples]`, full scale 1, mono, at `features.sample_rate`.

    Any format that libsndfile knows by its content (WAV, FLAC, OGG, MP3, ...), whatever the file's name. The int16
    value 32768 becomes 1. Of several channels the mean, or the one that `features.channel` picks; another sample rate
    is converted by soxr; the result is rounded to 16 bits (see `to_16_bits`). Of a file that is cut off, what is there.
    The first `buffer_size` bytes are asked for at once, which helps on slow file systems. With `content` that is taken
    for the file's bytes.

    Raises `DataError` for what cannot be read as audio, for a header that cannot be right, for samples that are not
    finite or far beyond full scale, for a channel that is not there, and for another sample rate where
    `features.normalize_sample_rate` is off.
    """
    with _open(path, content, buffer_size) as opened:
        file = opened.file
        rate = file.samplerate
        if rate != features.sample_rate and not features.normalize_sample_rate:
            raise DataError(f'{path}: {wrong_rate(rate, features.sample_rate)}')
        if features.channel > file.channels:
            raise DataError(f'{path}: {wrong_channel(file.channels, features.channel)}')
        samples = _read_all(file)
        is_float = file.subtype in FLOAT_SUBTYPES
        is_rounded = file.subtype in SUBTYPES_OF_16_BITS
    if is_float and (problem := _float_problem(samples)):
        raise DataError(f'{path}: {problem}')
    if features.channel:
        mono = samples[:, features.channel - 1].copy()
    elif samples.shape[1] > 1:
        mono = samples.mean(axis=1, dtype=np.float32)
        is_rounded = False
    else:
        mono = samples[:, 0]
    if rate != features.sample_rate:
        mono = soxr.resample(mono, rate, features.sample_rate)
        is_rounded = False
    return mono if is_rounded else to_16_bits(mono)


def _read_all(file: soundfile.SoundFile) -> npt.NDArray[np.float32]:
    """float32 `[samples, channels]`: as many as the header promises and the file has."""
    parts = list(blocks(file, frames_of_audio(file)))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _float_problem(samples: npt.NDArray[np.float32]) -> str:
    """Why floats are no audio; '' where they are."""
    if not np.isfinite(samples).all():
        return 'has samples that are not finite (NaN or infinity)'
    peak = np.abs(samples).max(initial=0)
    if peak > LOUDEST:
        return f'has samples up to {peak:g}, where full scale is 1: it was not scaled when it was written'
    return ''


def to_16_bits(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The nearest values that 16-bit audio can have; those of 16-bit files stay as they are.

    DeepSpeech and its clients compute features from 16-bit audio only, and the logarithm in an MFCC makes a
    difference of that: 8 kHz speech resampled to 16 kHz has nothing above 4 kHz but 16-bit rounding noise. Without
    it, these bands fall to the logarithm's floor, MFCCs are far from those of a file that was resampled beforehand
    (c0 by 12 on average), and training hardly starts.
    """
    values = samples * np.float32(32768)
    np.rint(values, out=values)
    np.clip(values, -32768, 32767, out=values)
    values /= np.float32(32768)
    return values


def resampled_length(samples: int, rate: int, new_rate: int) -> int:
    """How many samples soxr makes of `samples` when it converts from `rate` to `new_rate`: rounded, halves up."""
    return (2 * samples * new_rate + rate) // (2 * rate)


def wrong_rate(rate: int, wanted: int) -> str:
    """What is said of a file that would have to be resampled where that is not wanted."""
    return f'its sample rate is {rate} Hz, not {wanted} Hz, and --nonormalize_sample_rate forbids to convert it'


def wrong_channel(channels: int, wanted: int) -> str:
    """What is said of a file that lacks the channel that is wanted."""
    return f'has {channels} channel{"s" if channels > 1 else ""}; there is no channel {wanted} (--audio_channel)'


@dataclass(frozen=True)
class _Opened:
    """An audio file, and its bytes."""

    file: soundfile.SoundFile
    read_at: ReadAt
    size: int  # bytes


@contextmanager
def _open(path: str, content: bytes | None, buffer_size: int = 0) -> Iterator[_Opened]:
    """A file, or what has been read of it, with a sound header. Raises `DataError`, also for what fails inside."""
    try:
        with _open_file(path, buffer_size) if content is None else _open_content(content) as opened:
            if opened is None:
                raise DataError(f'{path}: is empty (0 bytes)')
            if problem := header_problem(opened.file):
                raise DataError(f'{path}: {problem}')
            yield opened
    except OSError as error:
        raise DataError(f'{path}: cannot be read: {error.strerror}') from error
    except (soundfile.LibsndfileError, ValueError) as error:  # ValueError: of places before the start of a file
        reason = getattr(error, 'error_string', '').rstrip('.')
        if not reason or reason.startswith(ERROR_WITHOUT_MEANING):
            reason = 'it is damaged or cut off'
        raise DataError(f'{path}: cannot be read as audio: {reason}') from error


@contextmanager
def _open_file(path: str, buffer_size: int) -> Iterator[_Opened | None]:
    """Opened by descriptor: by name, libsndfile takes some suffixes for the format. None if it is empty."""
    with open(path, 'rb', buffering=0, opener=_without_waiting) as raw:
        descriptor = raw.fileno()
        status = os.fstat(descriptor)
        size = status.st_size
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f'{path}: is not a file')
        if not size:
            yield None
            return
        if buffer_size and hasattr(os, 'posix_fadvise'):
            os.posix_fadvise(descriptor, 0, buffer_size, os.POSIX_FADV_WILLNEED)
        with soundfile.SoundFile(descriptor, closefd=False) as file:
            yield _Opened(file, lambda start, count: os.pread(descriptor, count, start), size)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, 'O_NONBLOCK', 0))  # a pipe would wait for somebody who writes


@contextmanager
def _open_content(content: bytes) -> Iterator[_Opened | None]:
    """The same of bytes."""
    if not content:
        yield None
        return
    with soundfile.SoundFile(io.BytesIO(content)) as file:
        yield _Opened(file, lambda start, count: content[start : start + count], len(content))
