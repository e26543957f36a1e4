"""What was said, and when."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deepspeech_training.audio.segments import Loudness
from deepspeech_training.config import FeatureConfig
from deepspeech_training.text.alignment import align
from deepspeech_training.text.alphabet import Alphabet

LogProbabilities = npt.NDArray[np.float32]
Samples = npt.NDArray[np.float32]

LONGEST_TAIL = 1.0  # seconds that a word may last after its last character


@dataclass(frozen=True)
class Word:
    """Times in seconds from the beginning of the recording; how sure the model is, from 0 to 1."""

    text: str
    start: float
    end: float
    confidence: float


@dataclass(frozen=True)
class Segment:
    """What was decoded at once."""

    start: float
    end: float
    text: str
    words: tuple[Word, ...]
    confidence: float


@dataclass(frozen=True)
class Transcript:
    """A recording; `separator` is what stands between words, '' in languages that write none."""

    path: str
    duration: float
    segments: tuple[Segment, ...]
    separator: str = ' '

    @property
    def text(self) -> str:
        texts = [segment.text.strip() for segment in self.segments]
        return self.separator.join(text for text in texts if text)

    @property
    def words(self) -> list[Word]:
        return [word for segment in self.segments for word in segment.words]


def word_separator(alphabet: Alphabet) -> str:
    """A space, if the alphabet has one; without, each label counts as a word."""
    return '' if alphabet.space is None else ' '


def make_segment(
    text: str,
    log_probabilities: LogProbabilities,
    alphabet: Alphabet,
    features: FeatureConfig,
    samples: Samples,
    start: float,
) -> Segment:
    """`text`, decoded from `log_probabilities` `[frames, n_output]` of `samples`, which begin at `start`, with times.

    A character is where the most likely path that spells `text` has it, in the middle of the windows of these frames.
    A word begins with its first one. It ends when the sound after its last one does, or the next word begins: models
    write a word early, often in its middle.
    The confidence of a character is the greatest probability that it has there, that of a word, and of the segment,
    the geometric mean over its characters.
    """
    end = start + len(samples) / features.sample_rate
    loudness = Loudness(samples, features.sample_rate)
    ids = alphabet.encode(_without_damage(text, alphabet))
    spans = align(log_probabilities, ids, alphabet.blank)
    surest = [float(log_probabilities[a : b + 1, i].max()) for i, (a, b) in zip(ids, spans, strict=True)]
    step = features.step_ms / 1000
    first = (features.window_ms - features.step_ms) / 2000
    runs = list(_runs(alphabet, ids))
    starts = [first + spans[run[0]][0] * step for run in runs]
    words = []
    for run, begins, bound in zip(runs, starts, [*starts[1:], end - start], strict=False):
        written = min(first + (spans[run[-1]][1] + 1) * step, bound)
        ends = loudness.last_sound(written, min(bound, written + LONGEST_TAIL))
        spelled = alphabet.decode([ids[place] for place in run])
        words.append(Word(spelled, start + begins, start + ends, _mean([surest[place] for place in run])))
    return Segment(start, end, text, tuple(words), _mean(surest))


def _without_damage(text: str, alphabet: Alphabet) -> str:
    """`text` without what stands for bytes that are no UTF-8, which has no label and so no time."""
    unknown = alphabet.unknown(text)
    return ''.join(character for character in text if character not in unknown) if unknown else text


def _runs(alphabet: Alphabet, ids: Sequence[int]) -> Iterator[list[int]]:
    """The places of the characters of each word."""
    separator = word_separator(alphabet)
    run: list[int] = []
    for place, number in enumerate(ids):
        is_space = number == alphabet.space
        if run and (is_space or not separator):
            yield run
            run = []
        if not is_space:
            run.append(place)
    if run:
        yield run


def _mean(logarithms: Sequence[float]) -> float:
    """The geometric mean of probabilities; 0 of none."""
    return math.exp(min(0.0, sum(logarithms) / len(logarithms))) if logarithms else 0.0
