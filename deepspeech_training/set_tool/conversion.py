"""New audio: another sample rate, another format, augmented."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import soundfile

from deepspeech_training.audio.reading import audio_info, read_audio
from deepspeech_training.config import FeatureConfig
from deepspeech_training.data.manifest import Sample
from deepspeech_training.data.writing import content_of
from deepspeech_training.errors import DataError, FlagError

if TYPE_CHECKING:
    from deepspeech_training.data.augmentation.augmenter import Augmenter

FORMATS = {
    'wav': ('WAV', 'PCM_16'),
    'flac': ('FLAC', 'PCM_16'),
    'ogg': ('OGG', 'VORBIS'),
    'opus': ('OGG', 'OPUS'),
    'mp3': ('MP3', 'MPEG_LAYER_III'),
}
"""libsndfile's names of the formats and of how they keep samples."""


@dataclass(frozen=True)
class Conversion:
    """What becomes of audio. All becomes mono, of 16 bits where the format has bits."""

    sample_rate: int = 0  # Hz; 0: that of each file
    channel: int = 0  # of files with several, counted from 1; 0: their mean
    format: str = 'wav'  # one of FORMATS
    augment: tuple[str, ...] = ()  # as of DeepSpeech.py
    copies: int = 1  # of each utterance, augmented with other random numbers
    clock: float = 0.0  # moment of training, from 0 to 1, for ranges that move
    seed: int = 0


class ConversionTask(NamedTuple):
    """Samples, and the number of the first among all, which their random numbers depend on."""

    samples: Sequence[Sample]
    first: int


class Converted(NamedTuple):
    """A new audio file, of a sample that is as before otherwise; or why there is none."""

    sample: Sample
    problem: str = ''


def check_augmentations(texts: Sequence[str]) -> None:
    """Raises `FlagError` for what is no augmentation or cannot be read, and for those of spectrograms and features."""
    if not texts:
        return
    from deepspeech_training.data.augmentation.augmenter import AUDIO, Augmenter  # takes a second to import

    for spec in Augmenter(texts, FeatureConfig(), 0).specs:
        if spec.domain not in AUDIO:
            raise FlagError(
                f'--augment={spec.text}: changes what is computed from audio ({spec.domain}), so that it cannot be '
                'written as audio; use it in training'
                + (', or with domain=signal' if spec.name in ('time_mask', 'dropout', 'add', 'multiply') else '')
            )


class Converter:
    """Writes new audio for samples; keeps open what it augments with."""

    def __init__(self, conversion: Conversion, folder: str) -> None:
        """`folder`: is there, and gets the audio."""
        self._conversion = conversion
        self._folder = folder
        self._augmenters: dict[int, Augmenter] = {}  # by sample rate

    def __call__(self, task: ConversionTask) -> list[Converted]:
        """Each copy of each sample of a task. Raises `OSError` where the folder cannot be written."""
        converted = []
        for number, sample in enumerate(task.samples, start=task.first):
            try:
                converted += [self._convert(sample, number, copy) for copy in range(self._conversion.copies)]
            except DataError as error:
                converted.append(Converted(sample, str(error).removeprefix(f'{sample.path}: ')))
        return converted

    def _convert(self, sample: Sample, number: int, copy: int) -> Converted:
        content = content_of(sample)
        rate = self._conversion.sample_rate or audio_info(sample.path, content).sample_rate
        samples = read_audio(
            sample.path, FeatureConfig(sample_rate=rate, channel=self._conversion.channel), content=content
        )
        if self._conversion.augment:
            samples = self._augmented(samples, rate, number, copy)
        stem = re.sub(r'[^\w-]+', '_', os.path.splitext(os.path.basename(sample.path))[0])[-60:]
        version = f'-{copy + 1}' if self._conversion.copies > 1 else ''
        path = os.path.join(self._folder, f'{number:06d}{version}-{stem}.{self._conversion.format}')
        encoded = self._encode(sample, samples, rate)
        with open(path, 'xb') as file:
            file.write(encoded)
        return Converted(replace(sample, path=path, size=len(encoded), source=None))

    def _augmented(
        self, samples: npt.NDArray[np.float32], rate: int, number: int, copy: int
    ) -> npt.NDArray[np.float32]:
        """Audio `[samples]`, as a training in epoch `copy` would hear it."""
        from deepspeech_training.data.augmentation.augmenter import Augmenter, Moment

        if rate not in self._augmenters:
            features = FeatureConfig(sample_rate=rate)
            self._augmenters[rate] = Augmenter(self._conversion.augment, features, self._conversion.seed)
        augmenter = self._augmenters[rate]
        return augmenter.change_audio(samples, augmenter.draw(Moment(copy, number, self._conversion.clock)))

    def _encode(self, sample: Sample, samples: npt.NDArray[np.float32], rate: int) -> bytes:
        """Audio `[samples]` as the bytes of a file."""
        container, subtype = FORMATS[self._conversion.format]
        encoded = io.BytesIO()
        try:
            soundfile.write(encoded, np.clip(samples, -1, 1), rate, subtype, format=container)
        except (soundfile.LibsndfileError, ValueError) as error:
            raise DataError(
                f'{sample.path}: cannot be written as {self._conversion.format} with {rate} Hz: '
                f'{str(error).rstrip(".")}; choose another --audio_rate or --audio_format'
            ) from error
        return encoded.getvalue()
