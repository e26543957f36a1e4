"""Where a corpus has its sentences from: a list, or a grammar."""

from __future__ import annotations

import hashlib
import random
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from deepspeech_training.errors import DataError
from deepspeech_training.text.alphabet import Alphabet, describe_character
from espeak_corpus.grammar import Grammar
from espeak_corpus.reading import read_text

MAX_TRIES = 10_000  # sentences drawn from a grammar until one is of the split


@dataclass(frozen=True)
class Sentence:
    spoken: str
    transcript: str
    line: int = 0  # of the list; 0: from a grammar


class SentenceList:
    """The lines of a file, each about as often as every other."""

    def __init__(self, path: str, sentences: Iterable[Sentence]) -> None:
        self.path = path
        self.sentences = tuple(sentences)

    @classmethod
    def from_file(cls, path: str, *, normalize: bool = False) -> SentenceList:
        """One sentence a line; empty lines and lines that begin with `#` are left out.

        With `normalize` the transcript is in lower case and without punctuation, while the line is spoken as it is.
        Raises `DataError` for a file that cannot be read, is not UTF-8 or has no sentence.
        """
        sentences = []
        for number, line in enumerate(read_text(path).splitlines(), start=1):
            spoken = ' '.join(line.split())
            if not spoken or spoken.startswith('#'):
                continue
            transcript = normalized(spoken) if normalize else spoken
            if not transcript:
                raise DataError(f'{path}, line {number}: nothing to say in {spoken!r}')
            sentences.append(Sentence(spoken, transcript, number))
        if not sentences:
            raise DataError(f'{path}: no sentences; write one a line')
        return cls(path, sentences)

    def check(self, alphabet: Alphabet) -> None:
        """Raises `DataError` for characters that the alphabet has not."""
        unknown: dict[str, int] = {}
        for sentence in self.sentences:
            for character in alphabet.unknown(sentence.transcript):
                unknown.setdefault(character, sentence.line)
        reject_unknown(self.path, alphabet, unknown)

    def stream(self, rng: random.Random, accept: Callable[[str], bool]) -> Iterator[Sentence]:
        """Without an end: all accepted sentences in a random order, then in another one, and so on.

        Raises `DataError` when none is accepted.
        """
        accepted = [sentence for sentence in self.sentences if accept(sentence.transcript)]
        if not accepted:
            raise DataError(f'{self.path}: too few sentences to have some in each of train, dev and test')
        while True:
            rng.shuffle(accepted)
            yield from accepted


class GrammarSentences:
    """Sentences drawn from a grammar."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar

    def check(self, alphabet: Alphabet) -> None:
        """Raises `DataError` for characters that the alphabet has not."""
        unknown: dict[str, int] = {}
        for word, line in self.grammar.words().items():
            for character in alphabet.unknown(word):
                unknown.setdefault(character, line)
        reject_unknown(self.grammar.path, alphabet, unknown)

    def stream(self, rng: random.Random, accept: Callable[[str], bool]) -> Iterator[Sentence]:
        """Without an end. Raises `DataError` when no sentence is accepted."""
        while True:
            for _ in range(MAX_TRIES):
                text = self.grammar.sample(rng)
                if accept(text):
                    break
            else:
                raise DataError(
                    f'{self.grammar.path}: too few sentences ({self.grammar.size()}) to have some in each of train, '
                    'dev and test'
                )
            yield Sentence(text, text)


SentenceSource = SentenceList | GrammarSentences


def normalized(text: str) -> str:
    """Lower case, letters, marks, numbers, apostrophes inside words and single spaces only; a dash becomes a space."""
    kept = []
    for character in unicodedata.normalize('NFC', text).lower().replace('\u2019', "'"):
        if character == "'" or unicodedata.category(character)[0] in 'LMN':
            kept.append(character)
        elif unicodedata.category(character) == 'Pd' or character.isspace():
            kept.append(' ')
    return ' '.join(filter(None, (word.strip("'") for word in ''.join(kept).split())))


def share_of(text: str, seed: int) -> float:
    """A number in [0, 1) that depends on the text and the seed alone."""
    digest = hashlib.sha256(f'{seed}:{text}'.encode()).digest()
    return int.from_bytes(digest[:6], 'big') / 2**48


def reject_unknown(path: str, alphabet: Alphabet, unknown: dict[str, int]) -> None:
    if not unknown:
        return
    names = [f'{describe_character(character)} in line {line}' for character, line in unknown.items()]
    more = f' and {len(names) - 10} more' if len(names) > 10 else ''
    raise DataError(
        f'{path}: characters that {alphabet.path} has not: {", ".join(names[:10])}{more}; '
        'name an alphabet that has them (--alphabet_config_path), or mend the text'
        ' (for a list, --normalize writes transcripts in lower case and without punctuation)'
    )
