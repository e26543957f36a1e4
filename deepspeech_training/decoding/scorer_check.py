"""Whether a `.scorer` file fits an alphabet, as far as that can be seen without KenLM.

Its lexicon has words in labels of the alphabet that it was made with, its language model has hashes of the same words
in UTF-8. So words of the lexicon, spelled with the right alphabet, are known to the language model.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import numpy as np

from deepspeech_training import log
from deepspeech_training.decoding.scorer_file import Automaton, ScorerFile, read_scorer_file
from deepspeech_training.decoding.vocabulary import murmur_hash, vocabulary_hashes
from deepspeech_training.errors import ScorerError
from deepspeech_training.text.alphabet import Alphabet

SAMPLE = 200  # words
LONGEST = 100  # labels

MANY_UNKNOWN = 0.5  # of the words in a sample: never with the right alphabet
FEW_UNKNOWN = 0.05


def check_scorer_package(path: str, alphabet: Alphabet) -> None:
    """Raises `ScorerError` for a file that is no `.scorer` that DeepSpeech's clients read, or for another alphabet."""
    file = read_scorer_file(path)
    if file.automaton is None:
        raise ScorerError(
            f"--scorer_path={path}: is a language model without the lexicon that DeepSpeech's clients need; make a "
            '.scorer of it'
        )
    check_alphabet(file, alphabet)


def check_alphabet(file: ScorerFile, alphabet: Alphabet) -> None:
    """Raises `ScorerError` for a scorer that was made with another alphabet, or for bytes, or not; warns of doubts."""
    made = f'--scorer_path={file.path}: was made'
    if file.for_bytes and not alphabet.of_bytes:
        raise ScorerError(f'{made} for a model that writes bytes of UTF-8 (--bytes_output_mode), not characters')
    if file.automaton is None:
        _check_units(file, alphabet)
        return
    if alphabet.of_bytes and not file.for_bytes:
        raise ScorerError(
            f'{made} for a model that writes the characters of an alphabet, not bytes of UTF-8 (--bytes_output_mode); '
            'make it anew with --force_bytes_output_mode'
        )
    wrong = f'another alphabet than {alphabet.path or "that of the model"}; make it anew with the alphabet of the model'
    largest = int(file.automaton.labels.max(initial=-1)) + 1
    if largest > alphabet.size:
        raise ScorerError(f'{made} with {wrong} (it has {largest} labels or more, the alphabet {alphabet.size})')
    unknown, share = _unknown_words(file.automaton, file.path, alphabet)
    if share > MANY_UNKNOWN:
        raise ScorerError(f'{made} with {wrong} (it does not know its own words, such as {unknown[0]!r})')
    if share > FEW_UNKNOWN:
        log.warn(
            f'--scorer_path={file.path}: {100 * share:.0f}% of the words in its lexicon, such as {unknown[0]!r}, are '
            'not in its language model; was it made with this alphabet?'
        )


def _check_units(file: ScorerFile, alphabet: Alphabet) -> None:
    """Of a language model without a lexicon."""
    longer = next((word for word in file.words if len(word) > 1), '')
    if alphabet.of_bytes and longer:
        raise ScorerError(
            f'--scorer_path={file.path}: has words, such as {longer!r}, where a model of bytes needs characters; make '
            'a .scorer of it with bin/generate_scorer_package.py, or a language model with --bytes_output_mode'
        )


def _unknown_words(words: Automaton, path: str, alphabet: Alphabet) -> tuple[list[str], float]:
    """Words of a sample that the language model does not know, and their share of the sample."""
    with open(path, 'rb') as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        hashes = vocabulary_hashes(content)
    if hashes is None:
        return [], 0.0
    sample = sorted(set(_sample_words(words, alphabet)))
    known = np.isin(np.array([murmur_hash(word.encode()) for word in sample], np.uint64), hashes)
    return [word for word, is_known in zip(sample, known, strict=True) if not is_known], 1 - float(known.mean())


def _sample_words(words: Automaton, alphabet: Alphabet) -> Iterator[str]:
    """Words on random ways through the lexicon, the same ones each time, without the space at their end."""
    random = np.random.default_rng(0)
    first = np.searchsorted(words.sources, np.arange(len(words.final) + 1))
    for _ in range(SAMPLE):
        state = words.start
        labels: list[int] = []
        while first[state] < first[state + 1] and len(labels) < LONGEST:
            arc = int(random.integers(first[state], first[state + 1]))
            labels.append(int(words.labels[arc]))
            state = int(words.targets[arc])
        word = alphabet.decode([label for label in labels if label >= 0])
        yield word if alphabet.of_bytes else word.removesuffix(' ')
