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
from deepspeech_training.config import N_INPUT, DataConfig, FeatureConfig
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
    is_mfccs: bool  # which of both
    labels: np.ndarray  # int32 [characters]
    content: bytes  # HASH_SIZE, what the cache shall know it by; NO_CONTENT where nothing is to be kept
    samples: int  # of the audio, at the model's sample rate


class LoadedPart(NamedTuple):
    """Some utterances of a batch, in the arrays that TensorFlow goes on with.

    Audio stands one utterance behind the other in `sound`, so that one operation computes the features of all: each
    begins where a frame begins, and the frames that reach from one into the next are in no place of `places`.
    """

    names: np.ndarray  # object [rows], of bytes: paths of the audio files, as the file system spells them
    sound: np.ndarray  # float32 [samples]: audio of those whose MFCCs are to be computed
    known: np.ndarray  # float32 [frames, N_INPUT]: MFCCs of the others, one utterance behind the other
    places: np.ndarray  # int32 [rows, frames]: row of (a frame of zeros, known frames, frames of sound) for each frame
    feature_lengths: np.ndarray  # int32 [rows]: frames
    labels: np.ndarray  # int32 [rows, characters], zero behind the end
    label_lengths: np.ndarray  # int32 [rows]: characters
    seconds: np.ndarray  # float32 [rows]: duration of the audio
    contents: np.ndarray  # int64 [rows, HASH_SIZE / 8]: as in `LoadedSample`
    samples: np.ndarray  # int64 [rows]: as in `LoadedSample`


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
            is_mfccs=sound.is_mfccs,
            labels=labels,
            content=sound.content,
            samples=sound.samples,
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
        self._store(self._cache, content, mfccs, len(audio))
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
        self._store(self._cache_of(moment.epoch), key, mfccs, len(audio))
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

    @staticmethod
    def _store(cache: FeatureCache | None, content: bytes, mfccs: np.ndarray, samples: int) -> None:
        if cache is not None and content != NO_CONTENT:
            cache.store(content, mfccs, samples)

    def store_part(
        self,
        contents: np.ndarray,
        samples: np.ndarray,
        mfccs: np.ndarray,
        feature_lengths: np.ndarray,
        epoch: np.ndarray,
    ) -> np.ndarray:
        """Keeps MFCCs `[rows, frames, N_INPUT]` that were computed from a `LoadedPart`, and returns them.

        `epoch`: the one that the part was loaded with.
        """
        cache = self._cache if epoch == NOT_AUGMENTED else self._cache_of(int(epoch))
        for content, count, rows, frames in zip(contents, samples, mfccs, feature_lengths, strict=True):
            self._store(cache, content.tobytes(), rows[:frames], int(count))
        return mfccs

    def load_part(self, positions: np.ndarray, epoch: np.ndarray, clocks: np.ndarray) -> LoadedPart:
        """`load` of several samples for `tf.numpy_function`: raises only errors that `failure_in` finds again.

        `positions`: int32 `[places]`, negative where there is none; `clocks`: float64 `[places]`.
        """
        loaded = [
            self._load_for_tensorflow(position, int(epoch), clock)
            for position, clock in zip(positions.tolist(), clocks.tolist(), strict=True)
            if position >= 0
        ]
        return join(loaded, self._features)

    def _load_for_tensorflow(self, position: int, epoch: int, clock: float) -> LoadedSample:
        try:
            return self.load(position, epoch, clock)
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


def join(loaded: Sequence[LoadedSample], features: FeatureConfig) -> LoadedPart:
    """Samples as rows of one part."""
    window, step = features.window_samples, features.step_samples
    lengths = [len(one.sound) if one.is_mfccs else features.frames(len(one.sound)) for one in loaded]
    places = np.zeros([len(loaded), max(lengths)], np.int32)
    labels = np.zeros([len(loaded), max(len(one.labels) for one in loaded)], np.int32)
    known = [one.sound for one in loaded if one.is_mfccs]
    next_known = 1  # behind the frame of zeros
    next_computed = next_known + sum(map(len, known))
    samples = np.array([one.samples for one in loaded], np.int64)
    sound: list[np.ndarray] = []
    for row, (one, length) in enumerate(zip(loaded, lengths, strict=True)):
        labels[row, : len(one.labels)] = one.labels
        first = next_known if one.is_mfccs else next_computed
        places[row, :length] = np.arange(first, first + length, dtype=np.int32)
        if one.is_mfccs:
            next_known += length
        else:
            used = (length - 1) * step + window  # what is behind is in no frame
            taken = -(-used // step)
            sound += [one.sound[:used], np.zeros(taken * step - used, np.float32)]
            next_computed += taken
    return LoadedPart(
        names=np.array([one.name for one in loaded], object),
        sound=np.concatenate(sound) if sound else np.zeros(0, np.float32),
        known=np.concatenate(known) if known else np.zeros([0, N_INPUT], np.float32),
        places=places,
        feature_lengths=np.array(lengths, np.int32),
        labels=labels,
        label_lengths=np.array([len(one.labels) for one in loaded], np.int32),
        seconds=(samples / features.sample_rate).astype(np.float32),
        contents=np.frombuffer(b''.join(one.content for one in loaded), np.int64).reshape(len(loaded), -1),
        samples=samples,
    )
