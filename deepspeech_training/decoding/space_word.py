"""A space as a word of a language model of characters, for models of bytes.

KenLM's programs split text at spaces, so no word can be one. But a binary knows its words by their hashes, in
ascending order, and the place of a hash is the number of its word. So the language model is made with another word for
the space, one whose hash has the place that the space's would have, and then its hash is replaced by the space's.
"""

from __future__ import annotations

import mmap
import re
import struct
from bisect import bisect_left
from collections.abc import Collection
from itertools import count
from typing import BinaryIO

import numpy as np

from deepspeech_training.decoding.vocabulary import hashes_place, murmur_hash, vocabulary_hashes

SPACE_WORD = re.compile('\N{LOWER ONE EIGHTH BLOCK}[0-9]+')
"""The mark that stands for spaces in many vocabularies, and a number; a text of single characters does not have it."""

ENDS = ('<s>', '</s>')
"""Words that are in every language model."""


def make_space_word(words: Collection[str]) -> str:
    """A word for the space in a language model of these `words` (and no others)."""
    hashes = sorted(murmur_hash(word.encode()) for word in {*words, *ENDS})
    place = bisect_left(hashes, murmur_hash(b' '))
    candidates = (f'\N{LOWER ONE EIGHTH BLOCK}{number}' for number in count())
    return next(word for word in candidates if bisect_left(hashes, murmur_hash(word.encode())) == place)


def find_space_word(words: Collection[str]) -> str | None:
    """That of `words` which is the space's."""
    return next((word for word in words if SPACE_WORD.fullmatch(word)), None)


def write_space(file: BinaryIO, word: str) -> None:
    """Puts the space in place of `word` into the KenLM binary `file`.

    Raises `ValueError` where that cannot be done: the binary's words are in no order, or `word` is not among them, or
    was made for other words.
    """
    file.flush()
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        hashes, start = vocabulary_hashes(content), hashes_place(content)
    if hashes is None or start is None:
        raise ValueError('its words are in no order; make it with --binary_type trie')
    place = int(np.searchsorted(hashes, np.uint64(murmur_hash(word.encode()))))
    if place == len(hashes) or hashes[place] != murmur_hash(word.encode()):
        raise ValueError(f'it does not know {word!r}, which stands for the space')
    others = np.delete(hashes, place)
    if np.searchsorted(others, np.uint64(murmur_hash(b' '))) != place:
        raise ValueError(f'{word!r} cannot stand for the space among these words; make it anew')
    file.seek(start + 8 * place)
    file.write(struct.pack('<Q', murmur_hash(b' ')))
