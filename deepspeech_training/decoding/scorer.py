"""A language model with its lexicon and weights, as the search uses it."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deepspeech_training.config import LM_ALPHA, LM_BETA
from deepspeech_training.decoding.lexicon import Lexicon
from deepspeech_training.decoding.scorer_check import check_alphabet
from deepspeech_training.decoding.scorer_file import ScorerFile, read_scorer_file
from deepspeech_training.errors import ScorerError
from deepspeech_training.text.alphabet import Alphabet

UNKNOWN = -1000.0
"""The log-probability of a word that the language model does not have."""

Word = tuple[int, ...]
"""As labels."""


@dataclass(frozen=True)
class ScorerOptions:
    """`path`: a .scorer, KenLM binary or ARPA file. `alpha`, `beta`: None: those of the file.

    `hot_words`: what is added to the log-probability of words (before alpha), in the end positive for wanted ones.
    """

    path: str
    alpha: float | None = None
    beta: float | None = None
    hot_words: Mapping[str, float] = field(default_factory=dict)


class Scorer:
    """Shared by all searches; each begins with `begin`."""

    def __init__(self, options: ScorerOptions, alphabet: Alphabet) -> None:
        """Raises `ScorerError` for a file that cannot be used, or not with this alphabet."""
        if alphabet.space is None:
            raise ScorerError(
                f'--scorer_path={options.path}: words need a space in the alphabet, which {alphabet.path!r} lacks'
            )
        file = read_scorer_file(options.path)
        check_alphabet(file, alphabet)
        _check_hot_words(options, alphabet)
        self.space = None if alphabet.of_bytes else alphabet.space  # ends a word; characters end by themselves
        self.alpha = _first(options.alpha, file.alpha, LM_ALPHA)
        self.beta = _first(options.beta, file.beta, LM_BETA)
        self.hot_words = dict(options.hot_words)
        self.kenlm, self.model = _open(options.path)
        self.spell = alphabet.decode
        self.lexicon = _lexicon(file, alphabet, self.space)

    @property
    def order(self) -> int:
        """Words that are looked at together."""
        return int(self.model.order)

    @property
    def largest_bonus(self) -> float:
        """The most that a word can add to the logarithm of a text's probability."""
        boosts = sum(sorted((max(0.0, boost) for boost in self.hot_words.values()), reverse=True)[:1]) * self.order
        return max(0.0, self.beta) + max(0.0, self.alpha * boosts) if self.alpha >= 0 else math.inf

    def weighted(self, alpha: float, beta: float) -> Scorer:
        """The same language model with other weights."""
        other = copy.copy(self)
        other.alpha, other.beta = alpha, beta
        return other

    def begin(self) -> Scoring:
        """For one utterance."""
        return Scoring(self)


class Scoring:
    """The words of one utterance. Contexts are numbered; 0 is the beginning."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        state = scorer.kenlm.State()
        scorer.model.BeginSentenceWrite(state)
        self._contexts: list[tuple[Any, tuple[str, ...]]] = [(state, ())]
        self._numbers: dict[tuple[Any, tuple[str, ...]], int] = {}
        self._known: dict[tuple[int, Word], tuple[float, int]] = {}

    def score(self, context: int, word: Word, *, boosted: bool = True) -> float:
        """What `word` behind `context` adds to the logarithm of a text's probability.

        A hot word counts as long as the language model looks at it, as in DeepSpeech; but for the last word of an
        utterance, which is not `boosted`.
        """
        scorer = self._scorer
        value = self._look_up(context, word)[0]
        if boosted and scorer.hot_words:
            seen = (*self._contexts[context][1], scorer.spell(word))
            value += sum(scorer.hot_words.get(each, 0.0) for each in seen)
        return value * scorer.alpha + scorer.beta

    def context_after(self, context: int, word: Word) -> int:
        """The number of the context that `word` behind `context` leaves."""
        return self._look_up(context, word)[1]

    def _look_up(self, context: int, word: Word) -> tuple[float, int]:
        known = self._known.get((context, word))
        if known is None:
            known = self._known[context, word] = self._ask(context, self._scorer.spell(word))
        return known

    def _ask(self, context: int, text: str) -> tuple[float, int]:
        """Natural logarithm of the probability, and the context behind it."""
        scorer = self._scorer
        before, words = self._contexts[context]
        after = scorer.kenlm.State()
        logarithm = scorer.model.BaseScore(before, text, after)
        value = logarithm * math.log(10) if text in scorer.model else UNKNOWN
        words = (*words, text)[1 - scorer.order :] if scorer.hot_words and scorer.order > 1 else ()
        number = self._numbers.setdefault((after, words), len(self._contexts))
        if number == len(self._contexts):
            self._contexts.append((after, words))
        return value, number


def _open(path: str) -> tuple[Any, Any]:
    """The package kenlm, and the language model."""
    try:
        import kenlm  # type: ignore[import-not-found]  # brings C++ code, which only scorers need
    except ImportError as error:
        how = "pip install '.[scorer]'" if sys.version_info < (3, 13) else 'bin/install_kenlm.sh --module'
        raise ScorerError(
            f'--scorer_path={path}: needs the package kenlm, which is not installed: {how} (that builds it, with a C++ '
            'compiler)'
        ) from error
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    try:
        return kenlm, kenlm.Model(path, config)
    except (OSError, RuntimeError) as error:
        reason = ' '.join(str(error).split())
        raise ScorerError(f'--scorer_path={path}: KenLM cannot read it: {reason}') from error


def _check_hot_words(options: ScorerOptions, alphabet: Alphabet) -> None:
    longer = [word for word in options.hot_words if len(word) > 1]
    if alphabet.of_bytes and longer:
        raise ScorerError(
            f'--hot_words={longer[0]}: the scorer of a model of bytes knows single characters only, so a word has no '
            'effect'
        )


def _lexicon(file: ScorerFile, alphabet: Alphabet, space: int | None) -> Lexicon:
    """Raises `ScorerError` where not a single word can be spelled."""
    if file.automaton is not None:
        if space is not None:
            return file.automaton.lexicon(alphabet.size)
        try:
            return Lexicon.of_words(file.automaton.characters(), None, alphabet.size)
        except ValueError as error:
            raise ScorerError(f'--scorer_path={file.path}: is damaged ({error}); copy or make it anew') from error
    words = [alphabet.encode(word) for word in file.words if not alphabet.unknown(word)]
    if not words:
        raise ScorerError(
            f'--scorer_path={file.path}: no word of it can be spelled with the alphabet {alphabet.path!r}'
        )
    return Lexicon.of_words(words, space, alphabet.size)


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)
