"""Audio files as mono samples at the model's sample rate."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from deepspeech_training.config import FeatureConfig
from deepspeech_training.errors import DataError

READ_BUFFER = 1024 * 1024  # bytes

# Their headers do not tell whether the file goes on to its end, as a WAV file's does.
COMPRESSED_FORMATS = ('FLAC', 'OGG', 'MP3')
FLOAT_SUBTYPES = ('FLOAT', 'DOUBLE')
SUBTYPES_OF_16_BITS = ('PCM_16', 'PCM_S8', 'PCM_U8')  # or fewer

# libsndfile's log of a WAV header that promises more bytes than follow.
CUT_OFF = re.compile(r'^data : (\d+) \(should be (\d+)\)', re.MULTILINE)
UNKNOWN_LENGTH = 2**31 - 2**16  # bytes; programs that write to a pipe put about 2^31 or 2^32 into the header
CUT_OFF_TOLERANCE = 0.1  # seconds; some programs count the header's bytes as audio


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

    Raises `DataError` for what cannot be read as audio, and for a file that ends before the length its header
    promises (an interrupted copy: the transcript would not fit it).
    """
    with _open(path, content) as file:
        info = AudioInfo(file.frames, file.samplerate, file.channels)
        if file.format in COMPRESSED_FORMATS:
            _read_last_sample(path, file)
        elif match := CUT_OFF.search(file.extra_info):
            promised, there = map(int, match.groups())
            missing = info.duration * (promised - there) / max(there, 1)
            if promised < UNKNOWN_LENGTH and missing > CUT_OFF_TOLERANCE:
                raise DataError(
                    f'{path}: is cut off: its header promises {info.duration + missing:.2f} s of audio, '
                    f'{info.duration:.2f} s are there. Copy or convert it again'
                )
        return info


def read_audio(
    path: str, features: FeatureConfig, buffer_size: int = READ_BUFFER, content: bytes | None = None
) -> npt.NDArray[np.float32]:
    """The samples of an audio file: float32 `[samples]`, full scale 1, mono, at `features.sample_rate`.

    Any format that libsndfile knows by its content (WAV, FLAC, OGG, MP3, ...), whatever the file's name. The int16
    value 32768 becomes 1. Several channels are averaged; another sample rate is converted by soxr; the result is
    rounded to 16 bits (see `to_16_bits`). Of a WAV file that is cut off, what is there. The first `buffer_size` bytes
    are asked for at once, which helps on slow file systems. With `content` that is taken for the file's bytes.

    Raises `DataError` for what cannot be read as audio, for samples that are not finite, and for another sample rate
    where `features.normalize_sample_rate` is off.
    """
    with _open(path, content, buffer_size) as file:
        rate = file.samplerate
        if rate != features.sample_rate and not features.normalize_sample_rate:
            raise DataError(f'{path}: {wrong_rate(rate, features.sample_rate)}')
        samples = file.read(dtype='float32', always_2d=True)
        rounded = file.subtype in SUBTYPES_OF_16_BITS and rate == features.sample_rate and samples.shape[1] == 1
        if file.subtype in FLOAT_SUBTYPES and not np.isfinite(samples).all():
            raise DataError(f'{path}: has samples that are not finite (NaN or infinity)')
    mono = samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1, dtype=np.float32)
    if rate != features.sample_rate:
        mono = soxr.resample(mono, rate, features.sample_rate)
    return mono if rounded else to_16_bits(mono)


def to_16_bits(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The nearest values that 16-bit audio can have; those of 16-bit files stay as they are.

    DeepSpeech and its clients compute features from 16-bit audio only, and the logarithm in an MFCC makes a
    difference of that: 8 kHz speech resampled to 16 kHz has nothing above 4 kHz but 16-bit rounding noise. Without
    it, these bands fall to the logarithm's floor, MFCCs are far from those of a file that was resampled beforehand
    (c0 by 12 on average), and training hardly starts.
    """
    values = np.rint(samples * np.float32(32768))
    np.clip(values, -32768, 32767, out=values)
    values /= np.float32(32768)
    return values


def resampled_length(samples: int, rate: int, new_rate: int) -> int:
    """How many samples soxr makes of `samples` when it converts from `rate` to `new_rate`: rounded, halves up."""
    return (2 * samples * new_rate + rate) // (2 * rate)


def wrong_rate(rate: int, wanted: int) -> str:
    """What is said of a file that would have to be resampled where that is not wanted."""
    return f'its sample rate is {rate} Hz, not {wanted} Hz, and --nonormalize_sample_rate forbids to convert it'


def _open(path: str, content: bytes | None, buffer_size: int = 0) -> AbstractContextManager[soundfile.SoundFile]:
    return _open_file(path, buffer_size) if content is None else _open_content(path, content)


@contextmanager
def _open_file(path: str, buffer_size: int = 0) -> Iterator[soundfile.SoundFile]:
    """An audio file, opened by descriptor: by name, libsndfile takes some suffixes for the format."""
    try:
        with open(path, 'rb', buffering=0) as raw:
            if os.fstat(raw.fileno()).st_size == 0:
                raise DataError(f'{path}: is empty (0 bytes)')
            if buffer_size and hasattr(os, 'posix_fadvise'):
                os.posix_fadvise(raw.fileno(), 0, buffer_size, os.POSIX_FADV_WILLNEED)
            with soundfile.SoundFile(raw.fileno(), closefd=False) as file:
                yield file
    except OSError as error:
        raise DataError(f'{path}: cannot be read: {error.strerror}') from error
    except soundfile.LibsndfileError as error:
        raise DataError(f'{path}: cannot be read as audio: {error.error_string.rstrip(".")}') from error


@contextmanager
def _open_content(path: str, content: bytes) -> Iterator[soundfile.SoundFile]:
    """An audio file of which all bytes have been read."""
    if not content:
        raise DataError(f'{path}: is empty (0 bytes)')
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            yield file
    except soundfile.LibsndfileError as error:
        raise DataError(f'{path}: cannot be read as audio: {error.error_string.rstrip(".")}') from error


def _read_last_sample(path: str, file: soundfile.SoundFile) -> None:
    """Raises `DataError` where the file has no such sample."""
    if not file.frames:
        return
    try:
        file.seek(file.frames - 1)
        there = len(file.read(1))
    except soundfile.LibsndfileError:
        there = 0
    if not there:
        duration = file.frames / file.samplerate
        raise DataError(
            f'{path}: is cut off or damaged: its header promises {duration:.2f} s of audio, whose end cannot be read. '
            'Copy or convert it again'
        )
