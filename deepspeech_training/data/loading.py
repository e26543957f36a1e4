"""Turns a sample of a data set into arrays: its name, its audio or MFCCs, its labels."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deepspeech_training import log
from deepspeech_training.audio.reading import read_audio
from deepspeech_training.audio.reference import reference_mfccs
from deepspeech_training.config import DataConfig, FeatureConfig
from deepspeech_training.data.contents import HASH_SIZE
from deepspeech_training.data.feature_cache import FeatureCache
from deepspeech_training.data.manifest import Sample
from deepspeech_training.errors import DataError, UserError
from deepspeech_training.text.alphabet import Alphabet

NO_CONTENT = bytes(HASH_SIZE)


class LoadedSample(NamedTuple):
    """What the input pipeline needs to know of one utterance."""

    name: bytes  # path of the audio file, as the file system spells it
    sound: np.ndarray  # float32: audio [samples] in [-1, 1], or MFCCs [frames, N_INPUT]
    is_mfccs: np.ndarray  # bool []: which of both
    labels: np.ndarray  # int32 [characters]
    seconds: np.ndarray  # float32 []: duration of the audio
    content: np.ndarray  # int64 [4]: hash of the audio file, zero without a cache
    samples: np.ndarray  # int64 []: of the audio, at the model's sample rate


class _Sound(NamedTuple):
    """The parts of a `LoadedSample` that come from the audio."""

    values: np.ndarray
    is_mfccs: bool
    samples: int
    content: bytes  # HASH_SIZE; NO_CONTENT where nothing is to be kept


class SampleLoader:
    """Loads samples by their position in a list, from several threads at once.

    TensorFlow turns an exception inside one of its functions into an error of its own, with a traceback as
    text. The loader keeps the exceptions, and marks the message it gives to TensorFlow with a number, so that
    `failure_in` finds the exception that belongs to TensorFlow's error.
    """

    def __init__(
        self,
        samples: Sequence[Sample],
        alphabet: Alphabet,
        features: FeatureConfig,
        data: DataConfig,
        cache: FeatureCache | None = None,
    ) -> None:
        self._samples = samples
        self._alphabet = alphabet
        self._features = features
        self._read_buffer = data.read_buffer
        self._cache = cache
        self._numbers = itertools.count()
        self._failures: dict[int, Exception] = {}

    def load(self, position: int) -> LoadedSample:
        """Reads, resamples and encodes the sample at `position`.

        Raises `DataError` when the audio cannot be read or has less than one window, or the transcript has
        characters that the alphabet lacks: files and alphabets can change after they were checked.
        """
        sample = self._samples[position]
        sound = self._sound(sample)
        try:
            labels = np.asarray(self._alphabet.encode(sample.transcript), np.int32)
        except DataError as error:
            raise DataError(f'{sample.csv}: line {sample.line}: {sample.path}: {error}') from None
        return LoadedSample(
            name=os.fsencode(sample.path),
            sound=sound.values,
            is_mfccs=np.asarray(sound.is_mfccs),
            labels=labels,
            seconds=np.asarray(np.float32(sound.samples / self._features.sample_rate)),
            content=np.frombuffer(sound.content, np.int64),
            samples=np.asarray(sound.samples, np.int64),
        )

    def _sound(self, sample: Sample) -> _Sound:
        """Features, where they are known or computed by NumPy, or audio."""
        content, data = NO_CONTENT, None
        if self._cache is not None:
            try:
                cached = self._cache.find(sample.path)
                if cached is None:
                    content, data = self._cache.read(sample.path)
                    cached = self._cache.find_content(content)  # of a file with another name, or touched
                if cached is not None:
                    return _Sound(cached.mfccs, True, cached.samples, NO_CONTENT)
            except OSError:  # it is read without the cache, which tells what is wrong
                content, data = NO_CONTENT, None
        audio = read_audio(sample.path, self._features, self._read_buffer, data)
        if not self._features.frames(len(audio)):
            raise DataError(
                f'{sample.path}: {len(audio)} samples at {self._features.sample_rate} Hz are shorter than '
                f'one window of {self._features.window_ms} ms; remove the file from {sample.csv}'
            )
        if self._features.backend != 'python_speech_features':
            return _Sound(audio, False, len(audio), content)
        mfccs = reference_mfccs(audio, self._features)
        self.store(np.frombuffer(content, np.int64), np.asarray(len(audio)), mfccs)
        return _Sound(mfccs, True, len(audio), NO_CONTENT)

    def store(self, content: np.ndarray, samples: np.ndarray, mfccs: np.ndarray) -> np.ndarray:
        """Keeps MFCCs [frames, N_INPUT] that were computed from a sample loaded as audio, and returns them."""
        if self._cache is not None and content.any():
            self._cache.store(content.tobytes(), mfccs, int(samples))
        return mfccs

    def load_for_tensorflow(self, position: int) -> LoadedSample:
        """`load` for `tf.numpy_function`: raises only errors that `failure_in` finds again."""
        try:
            return self.load(position)
        except UserError as error:
            failure: Exception = error
        except Exception as error:
            sample = self._samples[position]
            failure = RuntimeError(f'{sample.path} (line {sample.line} of {sample.csv}): {error!r}')
            failure.__cause__ = error
        number = next(self._numbers)
        self._failures[number] = failure
        raise RuntimeError(f'[input failure {number}] {str(failure)!a}') from None

    def failure_in(self, message: str) -> Exception | None:
        """The exception of the loader that `message`, an error message of TensorFlow, comes from."""
        found = re.search(r'\[input failure (\d+)\]', message)
        return self._failures.get(int(found[1])) if found else None

    def begin(self) -> None:
        """Before each pass: forgets exceptions, and takes up what other processes have computed."""
        self._failures.clear()
        if self._cache is not None:
            log.debug(f'Feature cache: {self._cache.found} utterances came from it, {self._cache.stored} were added')
            self._cache.refresh()
