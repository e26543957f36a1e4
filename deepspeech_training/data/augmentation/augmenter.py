"""All that `--augment` asks for, done to one utterance."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from deepspeech_training.audio.mfcc import MfccComputer
from deepspeech_training.audio.reading import to_16_bits
from deepspeech_training.augment_specs import AugmentSpec, parse_augmentations
from deepspeech_training.config import FeatureConfig
from deepspeech_training.data.augmentation import matrices, waveforms
from deepspeech_training.data.augmentation.noise import NoiseSource
from deepspeech_training.errors import DataError, FlagError

Values = npt.NDArray[np.float32]
Random = np.random.Generator

AUDIO = ('sample', 'signal')
AUGMENTATION_VERSION = 1
"""To be raised when the same augmentation, seed and moment give something else."""


class Moment(NamedTuple):
    """Which utterance is augmented, and when: what the random numbers and the ranges depend on."""

    epoch: int  # from 0
    number: int  # of the utterance in the training set
    clock: float  # how much of the training is over, from 0 to 1


class Augmented(NamedTuple):
    """What became of an utterance, in the last form that was needed."""

    values: Values  # audio [samples], or MFCCs [frames, N_INPUT]
    is_mfccs: bool


class Draw(NamedTuple):
    """An operation that happens to an utterance, with its values and its random numbers."""

    spec: AugmentSpec
    values: dict[str, float]
    random: Random
    source: NoiseSource | None
    least_frames: int  # that the transcript needs


class Augmenter:
    """The augmentations of a training; for several threads at once.

    The random numbers of an operation come from the seed, the epoch, the number of the utterance and the place of the
    operation among all, and from nothing else: not from the worker, the order, or what was done before.
    """

    def __init__(self, texts: Sequence[str], features: FeatureConfig, seed: int) -> None:
        """`texts`: the values of `--augment`.

        Raises:
          DataError: the recordings of an overlay cannot be read.
          FlagError: an augmentation that is none.
        """
        self.specs = parse_augmentations(texts)
        self._features = features
        self._computer = MfccComputer(features)
        self._seed = seed
        self._sources = [_open_source(spec, features) for spec in self.specs]
        self._moves = any(spec.moves for spec in self.specs)

    def __call__(self, samples: Values, moment: Moment, least_frames: int = 1) -> Augmented:
        """Audio `[samples]` of the model's sample rate becomes audio, or MFCCs where these had to be changed.

        `least_frames`: as many are left of those there are, however fast it becomes.
        """
        draws = self.draw(moment, least_frames)
        audio = self.change_audio(samples, draws)
        if all(draw.spec.domain in AUDIO for draw in draws):
            return Augmented(audio, False)
        spectrogram = self.change_spectrogram(self._computer.spectrogram(audio), draws)
        return Augmented(self.change_features(self._computer.from_spectrogram(spectrogram), draws), True)

    def draw(self, moment: Moment, least_frames: int = 1) -> list[Draw]:
        """What happens to an utterance, in this order."""
        draws = []
        for place, (spec, source) in enumerate(zip(self.specs, self._sources, strict=True)):
            key = np.random.SeedSequence([self._seed & 0xFFFFFFFF, moment.epoch, moment.number, place])
            random = np.random.Generator(np.random.Philox(key))
            if random.random() < spec.p:
                values = {name: each.pick(moment.clock, random) for name, each in spec.ranges.items()}
                draws.append(Draw(spec, values, random, source, least_frames))
        return draws

    def change_audio(self, samples: Values, draws: Sequence[Draw]) -> Values:
        """Audio `[samples]`, after what happens to recordings rounded to 16 bits, as recordings are."""
        changed = samples
        for draw in (each for each in draws if each.spec.domain == 'sample'):
            changed = SAMPLE_OPERATIONS[draw.spec.name](changed, draw, self._features)
        if changed is not samples:
            changed = to_16_bits(changed)
        for draw in (each for each in draws if each.spec.domain == 'signal'):
            changed = MATRIX_OPERATIONS[draw.spec.name](changed, draw, 1000 / self._features.sample_rate)
        return changed

    def change_spectrogram(self, spectrogram: Values, draws: Sequence[Draw]) -> Values:
        """Power `[frames, bins]`; never below zero."""
        for draw in (each for each in draws if each.spec.domain == 'spectrogram'):
            changed = MATRIX_OPERATIONS[draw.spec.name](spectrogram, draw, self._features.step_ms)
            spectrogram = np.maximum(changed, 0)
        return spectrogram

    def change_features(self, mfccs: Values, draws: Sequence[Draw]) -> Values:
        """MFCCs `[frames, N_INPUT]`."""
        for draw in (each for each in draws if each.spec.domain == 'features'):
            mfccs = MATRIX_OPERATIONS[draw.spec.name](mfccs, draw, self._features.step_ms)
        return mfccs

    def settings(self, epoch: int) -> str:
        """What the outcome depends on, beside the utterance and the clock; for the feature cache."""
        sources = [source.signature for source in self._sources if source]
        facts = [
            f'version {AUGMENTATION_VERSION}',
            f'scipy {scipy.__version__}',
            f'seed {self._seed}',
            f'epoch {epoch}',
        ]
        return '; '.join([*(spec.text for spec in self.specs), *sources, *facts])

    def key(self, content: bytes, moment: Moment, least_frames: int) -> bytes:
        """Stands for the utterance of this audio at this moment, where `content` stands for the audio: 32 bytes."""
        clock = moment.clock if self._moves else 0.0
        facts = struct.pack('<qqd', moment.number, least_frames, clock)
        return hashlib.blake2b(content + facts, digest_size=32).digest()


def _open_source(spec: AugmentSpec, features: FeatureConfig) -> NoiseSource | None:
    if not spec.source:
        return None
    try:
        return NoiseSource(spec.source, features)
    except DataError as error:
        raise FlagError(f"--augment={spec.text}: 'source={spec.source}': {error}") from error


def _overlay(samples: Values, draw: Draw, features: FeatureConfig) -> Values:
    assert draw.source is not None
    noise = np.zeros_like(samples)
    for _ in range(int(draw.values['layers'])):
        noise += draw.source.layer(len(samples), draw.random)
    return waveforms.overlay(samples, noise, draw.values['snr'])


SAMPLE_OPERATIONS: dict[str, Callable[[Values, Draw, FeatureConfig], Values]] = {
    'overlay': _overlay,
    'reverb': lambda samples, draw, features: waveforms.reverb(
        samples, draw.values['delay'], draw.values['decay'], features.sample_rate
    ),
    'resample': lambda samples, draw, features: waveforms.resample(
        samples, features.sample_rate, int(draw.values['rate'])
    ),
    'codec': lambda samples, draw, features: waveforms.codec(samples, draw.values['bitrate'], features.sample_rate),
    'volume': lambda samples, draw, _: waveforms.volume(samples, draw.values['dbfs']),
}

MATRIX_OPERATIONS: dict[str, Callable[[Values, Draw, float], Values]] = {
    # The last argument: milliseconds from one value to the next along the time axis.
    'pitch': lambda values, draw, _: matrices.pitch(values, draw.values['pitch']),
    'tempo': lambda values, draw, _: matrices.tempo(values, draw.values['factor'], draw.least_frames),
    'warp': lambda values, draw, _: matrices.warp(
        values,
        int(draw.values['nt']),
        int(draw.values['nf']),
        draw.values['wt'],
        draw.values['wf'],
        draw.random,
    ),
    'frequency_mask': lambda values, draw, _: matrices.frequency_mask(
        values, int(draw.values['n']), int(draw.values['size']), draw.random
    ),
    'time_mask': lambda values, draw, unit_ms: matrices.time_mask(
        values, int(draw.values['n']), matrices.frames_of(draw.values['size'], unit_ms), draw.random
    ),
    'dropout': lambda values, draw, _: matrices.dropout(values, draw.values['rate'], draw.random),
    'add': lambda values, draw, _: matrices.add(values, draw.values['stddev'], draw.random),
    'multiply': lambda values, draw, _: matrices.multiply(values, draw.values['stddev'], draw.random),
}
