"""Recordings inside of a page."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import soundfile

from deepspeech_training.data.sources import Source, load_source
from deepspeech_training.errors import DataError

AS_THEY_ARE = {'FLAC': 'audio/flac', 'OGG': 'audio/ogg', 'MP3': 'audio/mpeg'}
"""Formats that browsers play, and are small already."""

OF_24_BITS = ('PCM_24', 'PCM_32', 'FLOAT', 'DOUBLE')


class AudioData:
    """Puts recordings into a page until it has grown by `most_bytes`, and links to the others."""

    def __init__(self, folder: str, most_bytes: int, sources: Mapping[str, Source]) -> None:
        """`folder`: where the page is. `sources`: of recordings that are no files of their own."""
        self._folder = folder
        self._left = most_bytes
        self._sources = sources
        self.embedded = 0
        self.outside = 0

    def source(self, path: str) -> str:
        """What an `audio` element plays: a data URI, or the way to the file from the page; '' where there is none."""
        if self._left > 0:
            try:
                uri = data_uri(path, self._sources.get(path))
            except DataError:
                uri = ''
            if uri and len(uri) <= self._left:
                self._left -= len(uri)
                self.embedded += 1
                return uri
        self.outside += 1
        if path in self._sources:
            return ''
        return quote(os.path.relpath(path, self._folder or os.curdir), errors='surrogateescape')


def data_uri(path: str, source: Source | None = None) -> str:
    """A recording with all of its samples: compressed files as they are, others as FLAC.

    Raises `DataError` for a file that cannot be read, or not be made one of FLAC (more than 8 channels).
    """
    try:
        content = load_source(path, source) if source else Path(path).read_bytes()
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            kind = AS_THEY_ARE.get(file.format)
            if kind is None:
                kind, content = AS_THEY_ARE['FLAC'], _flac(file)
    except OSError as error:
        raise DataError(f'{path}: cannot be read: {error.strerror}') from error
    except (soundfile.LibsndfileError, ValueError) as error:
        raise DataError(f'{path}: cannot be put into a page: {error}') from error
    return f'data:{kind};base64,{base64.b64encode(content).decode()}'


def _flac(file: soundfile.SoundFile) -> bytes:
    of_24_bits = file.subtype in OF_24_BITS
    samples = file.read(dtype='float64' if of_24_bits else 'int16')
    packed = io.BytesIO()
    soundfile.write(packed, samples, file.samplerate, 'PCM_24' if of_24_bits else 'PCM_16', format='FLAC')
    return packed.getvalue()
