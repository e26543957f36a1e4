"""Whether a `.scorer` file fits an alphabet, as far as that can be seen without decoding.

Such a file is a KenLM language model with a vocabulary behind it: a dictionary of words, in labels of the alphabet that
it was made with, as an OpenFst automaton. The language model has hashes of the same words in UTF-8. So words of the
dictionary, spelled with the right alphabet, are known to the language model.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from deepspeech_training import log
from deepspeech_training.errors import DataError
from deepspeech_training.text.alphabet import Alphabet

KENLM_MAGIC = b'mmap lm http://kheafield.com/code format version 5\n\0'
KENLM_PARAMETERS = 0x58  # where they are: order, multiplier, kind of model, whether there are words, version
KENLM_SORTED = range(2, 6)  # the kinds of models with a sorted array of hashes (tries)
TRIE_MAGIC = b'EIRT'
TRIE_VERSION = 6
FST_MAGIC = 2125659606
FST_ALIGNMENT = 16  # bytes

STATE = np.dtype([('final', '<f4'), ('first', '<u4'), ('arcs', '<u4'), ('epsilons', '<u4', 2)])
ARC = np.dtype([('label', '<i4'), ('output', '<i4'), ('weight', '<f4'), ('next', '<i4')])

SAMPLE = 200  # words
LONGEST = 100  # labels

MANY_UNKNOWN = 0.5  # of the words in a sample: never with the right alphabet
FEW_UNKNOWN = 0.05


class Dictionary(NamedTuple):
    """An automaton that accepts words: arcs have the labels' numbers, from 1; words end in the space."""

    start: int
    states: npt.NDArray[np.void]
    arcs: npt.NDArray[np.void]


def check_scorer(path: str, alphabet: Alphabet) -> None:
    """Raises `DataError` for a file that cannot be read, is no scorer or was made with another alphabet."""
    try:
        with open(path, 'rb') as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # closed by the last array made of it
        _check(content, path, alphabet)
    except OSError as error:
        raise DataError(f'--scorer_path={path}: {error.strerror or error}') from error
    except (ValueError, struct.error, IndexError) as error:  # also of an empty file
        raise DataError(f'--scorer_path={path}: is no scorer, or damaged ({error})') from error


def _check(content: mmap.mmap, path: str, alphabet: Alphabet) -> None:
    if content[: len(KENLM_MAGIC)] != KENLM_MAGIC:
        raise ValueError('it does not begin with a KenLM language model')
    position = content.rfind(TRIE_MAGIC)
    if position < 0:
        raise ValueError('it has no dictionary; make one with generate_scorer_package')
    version, of_bytes = struct.unpack_from('<iB', content, position + len(TRIE_MAGIC))
    if version != TRIE_VERSION:
        raise DataError(f'--scorer_path={path}: has version {version}, clients of DeepSpeech 0.9 read {TRIE_VERSION}')
    made = f'--scorer_path={path}: was made'
    if of_bytes:
        raise DataError(f'{made} for a model that writes bytes of UTF-8 (--bytes_output_mode), not characters')
    words = _read_fst(content, position + struct.calcsize('<4siBdd'))
    wrong = f'another alphabet than {alphabet.path or "that of the model"}; make it anew with the alphabet of the model'
    largest = int(words.arcs['label'].max(initial=0))
    if largest > alphabet.size:
        raise DataError(f'{made} with {wrong} (it has {largest} labels or more, the alphabet {alphabet.size})')
    unknown, share = _unknown_words(words, content, alphabet)
    if share > MANY_UNKNOWN:
        raise DataError(f'{made} with {wrong} (it does not know its own words, such as {unknown[0]!r})')
    if share > FEW_UNKNOWN:
        log.warn(
            f'--scorer_path={path}: {100 * share:.0f}% of the words in its dictionary, such as {unknown[0]!r}, are not '
            'in its language model; was it made with this alphabet?'
        )


def _unknown_words(words: Dictionary, content: mmap.mmap, alphabet: Alphabet) -> tuple[list[str], float]:
    """Words of a sample that the language model does not know, and their share of the sample."""
    hashes = _vocabulary_hashes(content)
    if hashes is None:
        return [], 0.0
    sample = sorted(set(_sample_words(words, alphabet)))
    known = np.isin(np.array([murmur_hash(word.encode()) for word in sample], np.uint64), hashes)
    return [word for word, is_known in zip(sample, known, strict=True) if not is_known], 1 - float(known.mean())


def _read_fst(content: mmap.mmap, position: int) -> Dictionary:
    """Reads OpenFst's ConstFst of StdArc. Raises `ValueError` or `struct.error` for anything else."""
    (magic,) = struct.unpack_from('<i', content, position)
    if magic != FST_MAGIC:
        raise ValueError('its dictionary is no OpenFst file')
    position += 4
    for expected in (b'const', b'standard'):
        (length,) = struct.unpack_from('<i', content, position)
        position += 4
        if content[position : position + length] != expected:
            raise ValueError('its dictionary is of an unknown kind')
        position += length
    _, _, _, start, n_states, n_arcs = struct.unpack_from('<iiQqqq', content, position)
    position = _aligned(position + struct.calcsize('<iiQqqq'))
    states = np.frombuffer(content, STATE, n_states, position)
    position = _aligned(position + states.nbytes)
    return Dictionary(start, states, np.frombuffer(content, ARC, n_arcs, position))


def _aligned(position: int) -> int:
    return -(-position // FST_ALIGNMENT) * FST_ALIGNMENT


def _vocabulary_hashes(content: mmap.mmap) -> npt.NDArray[np.uint64] | None:
    """The hashes of the language model's words; None where they are not in a sorted array."""
    order, kind = struct.unpack_from('<B7xI', content, KENLM_PARAMETERS)
    if kind not in KENLM_SORTED:
        return None
    position = KENLM_PARAMETERS + struct.calcsize('<B7xII4x') + 8 * order  # behind the counts of n-grams
    position = -(-position // 8) * 8
    (count,) = struct.unpack_from('<Q', content, position)
    return np.frombuffer(content, '<u8', count, position + 8)


def _sample_words(words: Dictionary, alphabet: Alphabet) -> Iterator[str]:
    """Words on random ways through the dictionary, the same ones each time, without the space at their end."""
    random = np.random.default_rng(0)
    for _ in range(SAMPLE):
        state = words.start
        labels: list[int] = []
        while words.states[state]['arcs'] and len(labels) < LONGEST:
            arc = words.arcs[int(words.states[state]['first']) + random.integers(words.states[state]['arcs'])]
            labels.append(int(arc['label']) - 1)
            state = int(arc['next'])
        yield alphabet.decode([label for label in labels if label >= 0]).removesuffix(' ')


def murmur_hash(key: bytes) -> int:
    """MurmurHash64A (Appleby) with seed 0, which is KenLM's for words."""
    factor, mask = 0xC6A4A7935BD1E995, 2**64 - 1
    result = len(key) * factor & mask
    for start in range(0, len(key) - 7, 8):
        block = int.from_bytes(key[start : start + 8], 'little') * factor & mask
        block = (block ^ block >> 47) * factor & mask
        result = (result ^ block) * factor & mask
    if rest := key[len(key) // 8 * 8 :]:
        result = (result ^ int.from_bytes(rest, 'little')) * factor & mask
    result = (result ^ result >> 47) * factor & mask
    return result ^ result >> 47
