"""Turns a sample of a data set into arrays: its name, its audio or MFCCs, its labels."""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from deepspeech_training import log
from deepspeech_training.audio.reading import read_audio
from deepspeech_training.audio.reference import reference_mfccs
from deepspeech_training.config import DataConfig, FeatureConfig
from deepspeech_training.data.augmentation.augmenter import Augmenter, Moment
from deepspeech_training.data.contents import HASH_SIZE
from deepspeech_training.data.feature_cache import FeatureCache
from deepspeech_training.data.manifest import Sample
from deepspeech_training.data.sources import load_source
from deepspeech_training.errors import DataError, UserError
from deepspeech_training.text.alphabet import Alphabet

NO_CONTENT = bytes(HASH_SIZE)
NOT_AUGMENTED = -1  # in the place of an epoch


class LoadedSample(NamedTuple):
    """What the input pipeline needs to know of one utterance."""

    name: bytes  # path of the audio file, as the file system spells it
    sound: np.ndarray  # float32: audio [samples] in [-1, 1], or MFCCs [frames, N_INPUT]
    is_mfccs: np.ndarray  # bool []: which of both
    labels: np.ndarray  # int32 [characters]
    seconds: np.ndarray  # float32 []: duration of the audio
    content: np.ndarray  # int64 [4]: what the cache shall know it by, zero where nothing is to be kept
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
        augmenter: Augmenter | None = None,
        open_cache: Callable[[str], FeatureCache] | None = None,
    ) -> None:
        """`open_cache` opens the cache of augmented features, given what the augmentation depends on."""
        self._samples = samples
        self._alphabet = alphabet
        self._features = features
        self._read_buffer = data.read_buffer
        self._cache = cache
        self._augmenter = augmenter
        self._open_cache = open_cache
        self._augmented: tuple[int, FeatureCache | None] = (NOT_AUGMENTED, None)  # of which epoch
        self._numbers = itertools.count()
        self._failures: dict[int, Exception] = {}

    def load(self, position: int, epoch: int = NOT_AUGMENTED, clock: float = 0.0) -> LoadedSample:
        """Reads, resamples, augments and encodes the sample at `position`; `epoch` and `clock` are a `Moment`'s.

        Raises `DataError` when the audio cannot be read or has less than one window, or the transcript has
        characters that the alphabet lacks: files and alphabets can change after they were checked.
        """
        sample = self._samples[position]
        try:
            labels = np.asarray(self._alphabet.encode(sample.transcript), np.int32)
        except DataError as error:
            raise DataError(str(sample.problem(str(error)))) from None
        if epoch == NOT_AUGMENTED or self._augmenter is None:
            sound = self._sound(sample)
        else:
            least_frames = len(labels) + int(np.sum(labels[1:] == labels[:-1]))  # what CTC needs
            sound = self._augmented_sound(sample, self._augmenter, Moment(epoch, int(position), clock), least_frames)
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
                cached = self._cache.find(sample.path, sample.source)
                if cached is None:
                    content, data = self._cache.read(sample.path, sample.source)
                    cached = self._cache.find_content(content)  # of a file with another name, or touched
                if cached is not None:
                    return _Sound(cached.mfccs, True, cached.samples, NO_CONTENT)
            except OSError:  # it is read without the cache, which tells what is wrong
                content, data = NO_CONTENT, None
        audio = self._read(sample, data)
        if self._features.backend != 'python_speech_features':
            return _Sound(audio, False, len(audio), content)
        mfccs = reference_mfccs(audio, self._features)
        self.store(np.frombuffer(content, np.int64), np.asarray(len(audio)), mfccs)
        return _Sound(mfccs, True, len(audio), NO_CONTENT)

    def _augmented_sound(self, sample: Sample, augmenter: Augmenter, moment: Moment, least_frames: int) -> _Sound:
        """As `_sound`, changed by `augmenter`."""
        cache = self._cache_of(moment.epoch)
        key, data = NO_CONTENT, None
        if cache is not None:
            try:
                content = cache.contents.recall(sample.path, sample.source)
                if content is None:
                    content, data = cache.read(sample.path, sample.source)
                key = augmenter.key(content, moment, least_frames)
                cached = cache.find_content(key)
                if cached is not None:
                    return _Sound(cached.mfccs, True, cached.samples, NO_CONTENT)
            except OSError:
                key, data = NO_CONTENT, None
        audio = self._read(sample, data)
        changed = augmenter(audio, moment, least_frames)
        if not changed.is_mfccs and self._features.backend != 'python_speech_features':
            return _Sound(changed.values, False, len(audio), key)
        mfccs = changed.values if changed.is_mfccs else reference_mfccs(changed.values, self._features)
        self.store(np.frombuffer(key, np.int64), np.asarray(len(audio)), mfccs, np.asarray(moment.epoch))
        return _Sound(mfccs, True, len(audio), NO_CONTENT)

    def _read(self, sample: Sample, data: bytes | None) -> np.ndarray:
        if data is None and sample.source is not None:
            data = load_source(sample.path, sample.source)
        audio = read_audio(sample.path, self._features, self._read_buffer, data)
        if not self._features.frames(len(audio)):
            raise DataError(
                f'{sample.path}: {len(audio)} samples at {self._features.sample_rate} Hz are shorter than '
                f'one window of {self._features.window_ms} ms; remove the file from {sample.csv}'
            )
        return audio

    def _cache_of(self, epoch: int) -> FeatureCache | None:
        """The cache of features that were augmented with the random numbers of `epoch`; None of a pass given up."""
        augmented, cache = self._augmented
        return cache if augmented == epoch else None

    def store(
        self,
        content: np.ndarray,
        samples: np.ndarray,
        mfccs: np.ndarray,
        epoch: np.ndarray | None = None,
    ) -> np.ndarray:
        """Keeps MFCCs [frames, N_INPUT] that were computed from a sample loaded as audio, and returns them."""
        augmented = epoch is not None and int(epoch) != NOT_AUGMENTED
        cache = self._cache_of(int(epoch)) if augmented and epoch is not None else self._cache
        if cache is not None and content.any():
            cache.store(content.tobytes(), mfccs, int(samples))
        return mfccs

    def load_for_tensorflow(self, position: int, epoch: np.ndarray, clock: np.ndarray) -> LoadedSample:
        """`load` for `tf.numpy_function`: raises only errors that `failure_in` finds again."""
        try:
            return self.load(position, int(epoch), float(clock))
        except UserError as error:
            failure: Exception = error
        except Exception as error:
            sample = self._samples[position]
            failure = RuntimeError(f'{sample.path} ({sample.place}): {error!r}')
            failure.__cause__ = error
        number = next(self._numbers)
        self._failures[number] = failure
        raise RuntimeError(f'[input failure {number}] {str(failure)!a}') from None

    def failure_in(self, message: str) -> Exception | None:
        """The exception of the loader that `message`, an error message of TensorFlow, comes from."""
        found = re.search(r'\[input failure (\d+)\]', message)
        return self._failures.get(int(found[1])) if found else None

    def begin(self, epoch: int = NOT_AUGMENTED) -> None:
        """Before each pass: forgets exceptions, and takes up what other processes have computed.

        `epoch`: whose random numbers augment the samples of this pass.
        """
        self._failures.clear()
        if epoch != NOT_AUGMENTED and self._augmenter is not None and self._open_cache is not None:
            before, cache = self._augmented
            if before != epoch:
                self._augmented = (epoch, self._open_cache(self._augmenter.settings(epoch)))
                if cache is not None:  # nobody needs them any more
                    shutil.rmtree(cache.path, ignore_errors=True)
        for cache in (self._cache, self._augmented[1]):
            if cache is not None:
                log.debug(f'Feature cache: {cache.found} utterances came from it, {cache.stored} were added')
                cache.refresh()
