"""One interface for all ways to find the text; none of them needs TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from deepspeech_training.config import DecodingConfig
from deepspeech_training.decoding.beam_search import SearchOptions, prefix_beam_search
from deepspeech_training.decoding.scorer import Scorer, ScorerOptions
from deepspeech_training.text.alphabet import Alphabet


@dataclass(frozen=True)
class Hypothesis:
    """A text and the logarithm of its probability, with the scorer's part of it."""

    text: str
    score: float


class Decoder(Protocol):
    """Finds the text for what a model heard. May be used from several threads."""

    def decode(self, logits: np.ndarray) -> str:
        """The most likely text for `logits` `[frames, n_output]`, normalised or not."""

    def close(self) -> None:
        """Frees what the decoder holds."""


def make_decoder(alphabet: Alphabet, beam_width: int, scorer: Scorer | None = None) -> Decoder:
    """A decoder of this width; 1 without a scorer is the best path."""
    return decoder_with(alphabet, SearchOptions(beam_width), scorer)


def decoder_for(decoding: DecodingConfig, alphabet: Alphabet) -> Decoder:
    """As the flags say. Raises `ScorerError` for a language model that cannot be used, or not with this alphabet."""
    scorer = None
    if decoding.scorer_path:
        options = ScorerOptions(
            decoding.scorer_path, decoding.lm_alpha, decoding.lm_beta, hot_words=dict(decoding.hot_words)
        )
        scorer = Scorer(options, alphabet)
    return decoder_with(
        alphabet, SearchOptions(decoding.beam_width, decoding.cutoff_prob, decoding.cutoff_top_n), scorer
    )


def decoder_with(alphabet: Alphabet, options: SearchOptions, scorer: Scorer | None = None) -> Decoder:
    """A decoder that searches with these options; a width of 1 without a scorer is the best path."""
    if options.width == 1 and scorer is None:
        return GreedyDecoder(alphabet)
    return BeamSearchDecoder(alphabet, options, scorer)


class GreedyDecoder:
    """The text of the most likely path: the best label of each frame, repetitions and blanks left out."""

    def __init__(self, alphabet: Alphabet) -> None:
        self._alphabet = alphabet

    def decode(self, logits: np.ndarray) -> str:
        """See `Decoder`."""
        best = logits.argmax(axis=1)
        changed = np.concatenate([[True], best[1:] != best[:-1]])[: len(best)]
        return self._alphabet.decode(best[changed & (best != self._alphabet.blank)].tolist())

    def close(self) -> None:
        """There is nothing to free."""


class BeamSearchDecoder:
    """CTC prefix beam search, one utterance at a time: a result does not depend on what else is decoded."""

    def __init__(self, alphabet: Alphabet, options: SearchOptions, scorer: Scorer | None = None) -> None:
        self._alphabet = alphabet
        self._options = options
        self._scorer = scorer

    def decode(self, logits: np.ndarray) -> str:
        """See `Decoder`."""
        return self.best(logits, 1)[0].text

    def best(self, logits: np.ndarray, count: int) -> list[Hypothesis]:
        """The `count` most likely texts for `logits` `[frames, n_output]`, fewer where there are not so many."""
        found = prefix_beam_search(logits, self._options, self._scorer, count)
        return [Hypothesis(self._alphabet.decode(each.labels), each.score) for each in found]

    def close(self) -> None:
        """There is nothing to free."""
