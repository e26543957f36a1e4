"""Recordings to lay over others: a folder, a data set of any format, or one audio file."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from deepspeech_training import storage
from deepspeech_training.audio.reading import audio_info, read_audio
from deepspeech_training.config import FeatureConfig
from deepspeech_training.data.formats import LIST_SUFFIXES, read_data_set
from deepspeech_training.data.manifest import source_of
from deepspeech_training.data.sources import Source, load_source
from deepspeech_training.errors import DataError

Samples = npt.NDArray[np.float32]

SUFFIXES = ('.wav', '.flac', '.ogg', '.oga', '.opus', '.mp3', '.aif', '.aiff', '.au')
"""Of the files that are taken from a folder; those of a data set are known by their content."""
KEPT_BYTES = 256 << 20
"""Decoded recordings are kept in memory up to this."""


class NoiseSource:
    """The recordings of one source, at the model's sample rate; for several threads at once."""

    def __init__(self, source: str, features: FeatureConfig) -> None:
        """Raises `DataError` for a source that cannot be read, has no recordings, or one that is no audio."""
        self._features = replace(features, normalize_sample_rate=True, channel=0)  # whatever noise was recorded with
        self._sources = find_recordings(source)
        self.paths = list(self._sources)
        for path in self.paths:
            if not audio_info(path, self._content(path)).frames:
                raise DataError(f'{path}: has no samples')
        self.signature = _signature(self._sources)
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
        recording = read_audio(path, self._features, content=self._content(path))
        if not len(recording):
            raise DataError(f'{path}: has no samples')
        with self._lock:
            if path not in self._kept:
                self._kept[path] = recording
                self._kept_bytes += recording.nbytes
            while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
                self._kept_bytes -= self._kept.pop(next(iter(self._kept))).nbytes
        return recording

    def _content(self, path: str) -> bytes | None:
        source = self._sources[path]
        return None if source is None else load_source(path, source)


def _signature(sources: Mapping[str, Source | None]) -> str:
    """Changes with the recordings: their paths, sizes and times of change."""
    hashed = hashlib.sha256()
    statuses = {file: storage.status(file) for file in {source.file if source else p for p, source in sources.items()}}
    for path, source in sources.items():
        status = statuses[source.file if source else path]
        hashed.update(f'{path}\0{status.size}\0{status.version}\n'.encode('utf-8', 'surrogateescape'))
    return hashed.hexdigest()[:16]


def find_recordings(source: str) -> dict[str, Source | None]:
    """The recordings of a folder (those below it too), of a data set, or `source` itself.

    By their names; those that are local files of their own have no `Source`. Raises `DataError`.
    """
    source = os.path.expanduser(source)
    if os.path.isdir(source):
        found = [os.path.join(folder, name) for folder, _, names in os.walk(source) for name in names]
        paths = sorted(path for path in found if path.lower().endswith(SUFFIXES))
        if not paths:
            raise DataError(f'{source}: no audio files are in the folder ({", ".join(SUFFIXES)})')
        return dict.fromkeys(paths)
    if not source.lower().endswith(LIST_SUFFIXES):
        return {source: source_of(source)}
    samples, problems = read_data_set(source, labeled=False)
    if problems:
        raise DataError(str(problems[0]))
    return {sample.path: sample.source for sample in samples}
