"""Which sentence is spoken by whom, and how: decided before anything is spoken, from the seed alone."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from espeak_corpus.sentences import SentenceSource, share_of
from espeak_corpus.voices import Voice

SPLITS = ('train', 'dev', 'test')


@dataclass(frozen=True)
class Utterance:
    """One file to be: `split`/`number`."""

    split: str
    number: int
    spoken: str
    transcript: str
    voice: Voice
    rate: int  # words a minute
    pitch: int  # 0 to 99
    seed: int  # of the noise in the voice

    @property
    def path(self) -> str:
        """Relative to the corpus, with forward slashes."""
        return f'{self.split}/{self.number // 1000:03d}/{self.split}-{self.number:06d}.wav'


@dataclass(frozen=True)
class Plan:
    """Every voice speaks at every rate and pitch, in a random order; so does every sentence of a list."""

    source: SentenceSource
    voices: Mapping[str, tuple[Voice, ...]]
    rates: tuple[int, ...]
    pitches: tuple[int, ...]
    shares: Mapping[str, float]  # of the corpus, by split
    seed: int
    unseen_sentences: bool = False  # no sentence of one split in another

    def utterances(self, split: str) -> Iterator[Utterance]:
        """Without an end; the first n are the same however many are taken.

        Raises `DataError` when no sentence is left for the split.
        """
        rng = random.Random(f'{self.seed}:{split}')
        sentences = self.source.stream(
            random.Random(f'{self.seed}:{split}:sentences'), lambda text: self._is_in(text, split)
        )
        for number, (sentence, (voice, rate, pitch)) in enumerate(zip(sentences, self._manners(split, rng))):  # noqa: B905
            yield Utterance(
                split, number, sentence.spoken, sentence.transcript, voice, rate, pitch, rng.randrange(1, 2**31)
            )

    def _manners(self, split: str, rng: random.Random) -> Iterator[tuple[Voice, int, int]]:
        manners = list(itertools.product(self.voices[split], self.rates, self.pitches))
        while True:
            rng.shuffle(manners)
            yield from manners

    def _is_in(self, text: str, split: str) -> bool:
        if not self.unseen_sentences:
            return True
        place, end = share_of(text, self.seed), 0.0
        for name in SPLITS:
            end += self.shares[name]
            if place < end:
                return name == split
        return split == next(name for name in SPLITS if self.shares[name] > 0)
