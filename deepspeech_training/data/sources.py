"""Audio that is no local file of its own: an object elsewhere, a part of a container, some seconds of a recording."""

from __future__ import annotations

import io
from dataclasses import dataclass

import soundfile

from deepspeech_training import storage
from deepspeech_training.audio.reading import SUBTYPES_OF_16_BITS
from deepspeech_training.data.opus import ogg_of_packed_opus
from deepspeech_training.errors import DataError

OPUS = 'opus'
END_TOLERANCE = 0.1  # seconds; durations in manifests are rounded


@dataclass(frozen=True, slots=True)
class Source:
    """Where the bytes of an audio file are. Of `size` and `duration`, None means all there is."""

    file: str  # path or address of what contains them
    start: int = 0  # bytes
    size: int | None = None  # bytes
    packing: str = ''  # OPUS: packets as DeepSpeech's sample databases have them; '': a file that libsndfile reads
    offset: float = 0.0  # seconds
    duration: float | None = None  # seconds

    @property
    def is_inside(self) -> bool:
        """Whether it is an entry of a container, which has no name for itself."""
        return self.size is not None


def read_source(name: str, source: Source) -> bytes:
    """The audio as the bytes of a file that libsndfile reads.

    Seconds of a recording become a WAV file with the same sample rate and channels, without loss for what has up to
    24 bits.

    Raises:
      DataError: about `name`: the container ends before, or it is not what was said.
      OSError: it cannot be read.
    """
    if source.duration is not None:
        return _cut(name, source)
    content = storage.read(source.file, source.start, source.size)
    if source.size is not None and len(content) < source.size:
        raise DataError(f'{name}: {source.file} ends before it: byte {source.start + source.size} is not there')
    return ogg_of_packed_opus(name, content) if source.packing == OPUS else content


def load_source(name: str, source: Source) -> bytes:
    """`read_source`, with a `DataError` for everything that is wrong."""
    try:
        return read_source(name, source)
    except OSError as error:
        raise DataError(f'{name}: cannot be read: {error.strerror}') from error


def _cut(name: str, source: Source) -> bytes:
    assert source.duration is not None
    try:
        with storage.open_to_read(source.file) as raw, soundfile.SoundFile(raw) as recording:
            rate, total = recording.samplerate, recording.frames
            first, count = round(source.offset * rate), round(source.duration * rate)
            if first >= total or first + count > total + END_TOLERANCE * rate:
                raise DataError(
                    f'{name}: the recording has {total / rate:.2f} s, offset {source.offset:g} and duration '
                    f'{source.duration:g} go to {source.offset + source.duration:.2f} s'
                )
            exact = recording.subtype in SUBTYPES_OF_16_BITS
            recording.seek(first)
            samples = recording.read(count, dtype='int16' if exact else 'float32', always_2d=True)
    except soundfile.LibsndfileError as error:
        raise DataError(f'{name}: cannot be read as audio: {error.error_string.rstrip(".")}') from error
    content = io.BytesIO()
    soundfile.write(content, samples, rate, subtype='PCM_16' if exact else 'FLOAT', format='WAV')
    return content.getvalue()
