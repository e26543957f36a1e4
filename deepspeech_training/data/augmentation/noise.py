"""Recordings to lay over others: a folder, a CSV file with a column `wav_filename`, or one audio file."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from deepspeech_training.audio.reading import audio_info, read_audio
from deepspeech_training.config import FeatureConfig
from deepspeech_training.errors import DataError

Samples = npt.NDArray[np.float32]

NAME_COLUMN = 'wav_filename'
SUFFIXES = ('.wav', '.flac', '.ogg', '.oga', '.opus', '.mp3', '.aif', '.aiff', '.au')
"""Of the files that are taken from a folder; those of a CSV file are known by their content."""
KEPT_BYTES = 256 << 20
"""Decoded recordings are kept in memory up to this."""


class NoiseSource:
    """The recordings of one source, at the model's sample rate; for several threads at once."""

    def __init__(self, source: str, features: FeatureConfig) -> None:
        """Raises `DataError` for a source that cannot be read, has no recordings, or one that is no audio."""
        self._features = replace(features, normalize_sample_rate=True, channel=0)  # whatever noise was recorded with
        self.paths = find_recordings(source)
        for path in self.paths:
            if not audio_info(path).frames:
                raise DataError(f'{path}: has no samples')
        self.signature = _signature(self.paths)
        self._kept: dict[str, Samples] = {}
        self._kept_bytes = 0
        self._lock = threading.Lock()

    def layer(self, count: int, random: np.random.Generator) -> Samples:
        """`count` samples of recordings drawn at random, the first from any place on, the others from their start.

        Raises `DataError` when a recording cannot be read any more.
        """
        layer = np.empty(count, np.float32)
        done = 0
        while done < count:
            recording = self._read(self.paths[random.integers(len(self.paths))])
            start = 0 if done else int(random.integers(len(recording)))
            part = recording[start : start + count - done]
            layer[done : done + len(part)] = part
            done += len(part)
        return layer

    def _read(self, path: str) -> Samples:
        with self._lock:
            kept = self._kept.pop(path, None)
            if kept is not None:
                self._kept[path] = kept  # the last used at the end
                return kept
        recording = read_audio(path, self._features)
        if not len(recording):
            raise DataError(f'{path}: has no samples')
        with self._lock:
            if path not in self._kept:
                self._kept[path] = recording
                self._kept_bytes += recording.nbytes
            while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
                self._kept_bytes -= self._kept.pop(next(iter(self._kept))).nbytes
        return recording


def _signature(paths: Sequence[str]) -> str:
    """Changes with the recordings: their paths, sizes and times of change."""
    hashed = hashlib.sha256()
    for path in paths:
        status = os.stat(path)
        hashed.update(f'{path}\0{status.st_size}\0{status.st_mtime_ns}\n'.encode('utf-8', 'surrogateescape'))
    return hashed.hexdigest()[:16]


def find_recordings(source: str) -> list[str]:
    """The audio files of a folder (those below it too), of a CSV file, or `source` itself.

    Raises `DataError`.
    """
    source = os.path.expanduser(source)
    if os.path.isdir(source):
        found = [os.path.join(folder, name) for folder, _, names in os.walk(source) for name in names]
        paths = sorted(path for path in found if path.lower().endswith(SUFFIXES))
        if not paths:
            raise DataError(f'{source}: no audio files are in the folder ({", ".join(SUFFIXES)})')
        return paths
    return _listed(source) if source.lower().endswith('.csv') else [source]


def _listed(path: str) -> list[str]:
    try:
        with open(path, encoding='utf-8-sig', newline='') as file:
            rows = list(csv.DictReader(io.StringIO(file.read(), newline='')))
    except OSError as error:
        raise DataError(f'{path}: cannot be read: {error.strerror}') from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f'{path}: cannot be read as CSV: {error}') from error
    names = [row.get(NAME_COLUMN) or '' for row in rows]
    if not any(names):
        raise DataError(f'{path}: names no audio files; needed is the column {NAME_COLUMN}')
    return [os.path.join(os.path.dirname(path), name) for name in names if name]
