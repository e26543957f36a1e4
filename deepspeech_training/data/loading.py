"""Turns a sample of a data set into arrays: its name, its audio or MFCCs, its labels."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deepspeech_training.audio.reading import read_audio
from deepspeech_training.audio.reference import reference_mfccs
from deepspeech_training.config import DataConfig, FeatureConfig
from deepspeech_training.data.manifest import Sample
from deepspeech_training.errors import DataError, UserError
from deepspeech_training.text.alphabet import Alphabet


class LoadedSample(NamedTuple):
    """What the input pipeline needs to know of one utterance."""

    name: bytes  # path of the audio file, as the file system spells it
    audio: np.ndarray  # float32 [samples] in [-1, 1], or MFCCs [frames, N_INPUT] by python_speech_features
    labels: np.ndarray  # int32 [characters]
    seconds: np.ndarray  # float32 []: duration of the audio


class SampleLoader:
    """Loads samples by their position in a list, from several threads at once.

    TensorFlow turns an exception inside one of its functions into an error of its own, with a traceback as
    text. The loader keeps the exceptions, and marks the message it gives to TensorFlow with a number, so that
    `failure_in` finds the exception that belongs to TensorFlow's error.
    """

    def __init__(
        self, samples: Sequence[Sample], alphabet: Alphabet, features: FeatureConfig, data: DataConfig
    ) -> None:
        self._samples = samples
        self._alphabet = alphabet
        self._features = features
        self._read_buffer = data.read_buffer
        self._numbers = itertools.count()
        self._failures: dict[int, Exception] = {}

    def load(self, position: int) -> LoadedSample:
        """Reads, resamples and encodes the sample at `position`.

        Raises `DataError` when the audio cannot be read or has less than one window, or the transcript has
        characters that the alphabet lacks: files and alphabets can change after they were checked.
        """
        sample = self._samples[position]
        audio = read_audio(sample.path, self._features, self._read_buffer)
        if not self._features.frames(len(audio)):
            raise DataError(
                f'{sample.path}: {len(audio)} samples at {self._features.sample_rate} Hz are shorter than '
                f'one window of {self._features.window_ms} ms; remove the file from {sample.csv}'
            )
        seconds = np.float32(len(audio) / self._features.sample_rate)
        try:
            labels = np.asarray(self._alphabet.encode(sample.transcript), np.int32)
        except DataError as error:
            raise DataError(f'{sample.csv}: line {sample.line}: {sample.path}: {error}') from None
        if self._features.backend == 'python_speech_features':
            audio = reference_mfccs(audio, self._features)
        return LoadedSample(os.fsencode(sample.path), audio, labels, np.asarray(seconds))

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

    def forget_failures(self) -> None:
        """Forgets the exceptions of the samples loaded until now."""
        self._failures.clear()
