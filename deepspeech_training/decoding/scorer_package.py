"""Writes a `.scorer` for DeepSpeech's and Coqui STT's clients: a KenLM binary with weights and a lexicon behind it."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from deepspeech_training import storage
from deepspeech_training.decoding.lexicon_file import automaton_bytes, minimal_automaton
from deepspeech_training.decoding.scorer_file import (
    FST_MAGIC,
    HEADER,
    KENLM_MAGIC,
    MAGIC,
    VERSION,
    WEIGHTS,
    Automaton,
    place_of_weights,
)
from deepspeech_training.decoding.space_word import find_space_word, write_space
from deepspeech_training.decoding.vocabulary import PARAMETERS, murmur_hash, named_words, vocabulary_hashes
from deepspeech_training.errors import ScorerError
from deepspeech_training.text.alphabet import Alphabet

HAS_WORDS = PARAMETERS + 12  # where a KenLM binary says whether its words are at its end
LEAST = 0x100  # bytes; a KenLM binary is longer


@dataclass(frozen=True)
class LanguageModel:
    """The part of a file that KenLM needs: its first `size` bytes. Names of words behind them are not needed."""

    path: str
    size: int
    words: tuple[str, ...] | None  # None: the file has only their hashes
    hashes: frozenset[int] | None  # None: not known


@dataclass(frozen=True)
class Lexicon:
    """What became of a list of words."""

    automaton: Automaton
    words: int  # in it
    not_in_alphabet: tuple[str, ...]  # left out
    not_in_model: tuple[str, ...]  # left out: the decoder could never write them
    space_word: str | None = None  # stands for the space in a language model of characters


def read_language_model(path: str) -> LanguageModel:
    """A KenLM binary, with the names of its words or without, or that of a `.scorer`. Raises `ScorerError`."""
    try:
        if os.stat(path).st_size < LEAST:
            raise ScorerError(f'--lm={path}: is no KenLM binary, it has fewer than {LEAST} bytes')
        with open(path, 'rb') as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content[: len(KENLM_MAGIC)] != KENLM_MAGIC:
                raise ScorerError(f'--lm={path}: is neither a KenLM binary nor an ARPA file')
            hashes = vocabulary_hashes(content)
            size, words = _search_end(path, content)
    except (OSError, ValueError, struct.error) as error:
        reason = getattr(error, 'strerror', None) or 'is damaged; copy or make it anew'
        raise ScorerError(f'--lm={path}: {reason}') from error
    return LanguageModel(path, size, words, None if hashes is None else frozenset(hashes.tolist()))


def _search_end(path: str, content: mmap.mmap) -> tuple[int, tuple[str, ...] | None]:
    """Where KenLM's tables end, and the names of words behind them."""
    if content[HAS_WORDS]:
        named = named_words(content)
        if named is None:
            raise ScorerError(f'--lm={path}: is cut off, the words at its end are missing; copy or make it anew')
        return named
    place = content.rfind(struct.pack('<II', MAGIC, VERSION))
    if place >= 0 and content[place + HEADER.size :][:4] == struct.pack('<I', FST_MAGIC):
        return place, None
    return len(content), None


def make_lexicon(words: list[str], model: LanguageModel, alphabet: Alphabet) -> Lexicon:
    """The words that the alphabet can spell and the model knows. Raises `ScorerError` where there is none."""
    if alphabet.space is None:
        raise ScorerError(f'--alphabet={alphabet.path}: words need a space, which this alphabet lacks')
    spelled: list[list[int]] = []
    foreign, unknown = [], []
    space_word = find_space_word(words) if alphabet.of_bytes else None
    for word in sorted(set(words)):
        if alphabet.unknown(word):
            foreign.append(word)
        elif model.hashes is not None and murmur_hash(word.encode()) not in model.hashes:
            unknown.append(word)
        else:
            spelled.append(alphabet.encode(' ' if word == space_word else word))
    if not words:
        raise ScorerError(f'--lm={model.path}: the list of words for it is empty')
    if not spelled:
        examples = '; '.join(
            f'{len(found)} {what}, as {found[0]!r}'
            for what, found in (('not in the alphabet', foreign), ('unknown to the model', unknown))
            if found
        )
        raise ScorerError(f'--lm={model.path}: none of the words can be used: {examples}')
    automaton = minimal_automaton(spelled, None if alphabet.of_bytes else alphabet.space)
    return Lexicon(automaton, len(spelled), tuple(foreign), tuple(unknown), space_word)


def write_scorer_package(
    path: str,
    model: LanguageModel,
    automaton: Automaton,
    alpha: float,
    beta: float,
    *,
    for_bytes: bool = False,
    space_word: str | None = None,
) -> None:
    """Writes the file whole or not at all; one that is there stays until then. Raises `ScorerError`."""
    try:
        with _written_aside(path) as out:
            with open(model.path, 'rb') as source:
                _copy(source, out, model.size)
            if space_word:
                write_space(out, space_word)
            out.seek(HAS_WORDS)
            out.write(b'\0')
            out.seek(model.size)
            out.write(HEADER.pack(MAGIC, VERSION, for_bytes, alpha, beta))
            out.write(automaton_bytes(automaton, out.tell()))
    except ValueError as error:
        raise ScorerError(f'--lm={model.path}: {error}') from error
    except OSError as error:
        raise ScorerError(f'--package={path}: cannot be written: {error.strerror or error}') from error


def write_weights(scorer: str, path: str, alpha: float, beta: float) -> None:
    """Writes a copy of the `.scorer` at `scorer` with these weights to `path`, which may be the same.

    Whole or not at all. Raises `ScorerError`.
    """
    place = place_of_weights(scorer)
    try:
        with _written_aside(path) as out, open(scorer, 'rb') as source:
            _copy(source, out, os.stat(scorer).st_size)
            out.seek(place)
            out.write(WEIGHTS.pack(alpha, beta))
    except OSError as error:
        raise ScorerError(f'{path}: cannot be written: {error.strerror or error}') from error


def _copy(source: BinaryIO, out: BinaryIO, size: int) -> None:
    left = size
    while left:
        block = source.read(min(left, 1 << 20))
        if not block:
            raise OSError(f'{source.name} has become shorter')
        out.write(block)
        left -= len(block)


@contextmanager
def _written_aside(path: str) -> Iterator[BinaryIO]:
    """A new file that takes its name in the end, if nothing goes wrong before. Its folder is made."""
    os.makedirs(os.path.dirname(path) or os.curdir, exist_ok=True)
    with storage.written_whole(path, durable=True) as unfinished, open(unfinished, 'x+b') as file:
        yield file
