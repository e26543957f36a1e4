"""Reads the files that a language model comes in: DeepSpeech's `.scorer`, KenLM's binary format, ARPA text.

A `.scorer` is a KenLM binary, and behind it, all little endian: the magic number, the version, whether units are
bytes, alpha and beta, and the lexicon as a finite state automaton in OpenFst's `const` format.
"""

from __future__ import annotations

import gzip
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deepspeech_training.decoding.lexicon import Lexicon
from deepspeech_training.decoding.vocabulary import named_words
from deepspeech_training.errors import ScorerError

MAGIC = 0x54524945
VERSION = 6
HEADER = struct.Struct('<II?dd')  # magic, version, bytes instead of characters, alpha, beta

WEIGHTS = struct.Struct('<dd')  # the end of it

KENLM_MAGIC = b'mmap lm http://kheafield.com/code'
GZIP_MAGIC = b'\x1f\x8b'

LONGEST_CHARACTER = 4  # bytes

FST_MAGIC = 2125659606
FST_NUMBERS = struct.Struct('<iiQqqq')  # version, flags, properties, first state, number of states, of arcs
FST_ALIGNED_VERSION = 1
FST_ALIGNMENT = 16  # bytes, counted from the beginning of the file
FST_STATE = np.dtype([('final', '<f4'), ('first', '<u4'), ('arcs', '<u4'), ('inputs', '<u4'), ('outputs', '<u4')])
FST_ARC = np.dtype([('label', '<i4'), ('output', '<i4'), ('weight', '<f4'), ('target', '<i4')])


@dataclass(frozen=True)
class Automaton:
    """Arcs and final states of a lexicon, as in the file but with labels from 0."""

    start: int
    sources: np.ndarray  # int64 [arcs]
    labels: np.ndarray
    targets: np.ndarray
    final: np.ndarray  # bool [states]

    def lexicon(self, n_labels: int) -> Lexicon:
        """What is behind a final state begins again at the start."""
        targets = np.where(self.final[self.targets], self.start, self.targets)
        return Lexicon(self.sources, self.labels, targets, self.start, n_labels)

    def characters(self) -> Iterator[tuple[int, ...]]:
        """The labels of each entry, for lexicons of bytes, whose entries are the characters of UTF-8.

        Raises `ValueError` for a lexicon with other entries.
        """
        first = np.searchsorted(self.sources, np.arange(len(self.final) + 1))
        ways: list[tuple[int, tuple[int, ...]]] = [(self.start, ())]
        while ways:
            state, before = ways.pop()
            for arc in range(first[state], first[state + 1]):
                entry = (*before, int(self.labels[arc]))
                if not self.final[self.targets[arc]]:
                    if len(entry) == LONGEST_CHARACTER:
                        raise ValueError('its lexicon has more than the bytes of characters')
                    ways.append((int(self.targets[arc]), entry))
                    continue
                if not _is_character(entry):
                    raise ValueError('its lexicon has bytes that are no character of UTF-8')
                yield entry


@dataclass(frozen=True)
class ScorerFile:
    """What a file says beside the probabilities; these are for KenLM to read from the same path.

    With an `automaton` the file is a `.scorer`; else `words` are those of the language model.
    """

    path: str
    automaton: Automaton | None = None
    words: tuple[str, ...] = ()
    alpha: float | None = None
    beta: float | None = None
    for_bytes: bool = False


def _is_character(labels: tuple[int, ...]) -> bool:
    """Whether they are the bytes of one character."""
    try:
        return len(bytes(label + 1 for label in labels).decode()) == 1
    except ValueError:
        return False


def read_scorer_file(path: str) -> ScorerFile:
    """Raises `ScorerError` for a file that cannot be read, is none of the three kinds, or is damaged."""
    try:
        if not Path(path).stat().st_size:
            raise ScorerError(f'--scorer_path={path}: the file is empty')
        with open(path, 'rb') as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content[: len(KENLM_MAGIC)] == KENLM_MAGIC:
                return _read_binary(path, content)
        return _read_arpa(path)
    except OSError as error:
        raise ScorerError(f'--scorer_path={path}: {error.strerror or error}') from error


def _read_binary(path: str, content: mmap.mmap) -> ScorerFile:
    place = _place_of_lexicon(content)
    if place < 0:
        return ScorerFile(path, words=_vocabulary(path, content))
    try:
        _, version, for_bytes, alpha, beta = HEADER.unpack_from(content, place)
        if version != VERSION:
            raise ValueError(f'its lexicon has version {version}, that of DeepSpeech 0.9 is {VERSION}')
        automaton = _read_automaton(content, place + HEADER.size)
    except (struct.error, ValueError) as error:
        raise ScorerError(f'--scorer_path={path}: is damaged ({error}); copy or make the file again') from error
    return ScorerFile(path, automaton, alpha=alpha, beta=beta, for_bytes=for_bytes)


def _place_of_lexicon(content: mmap.mmap) -> int:
    """Where the header is; -1: nowhere. Numbers of a large model may look like its first one by chance."""
    place = len(content)
    while (place := content.rfind(struct.pack('<I', MAGIC), 0, place)) >= 0:
        behind = place + HEADER.size
        if behind >= len(content) - 4 or struct.unpack_from('<I', content, behind) == (FST_MAGIC,):
            return place
    return place


def place_of_weights(path: str) -> int:
    """Where alpha and beta are in a `.scorer`: two numbers of 8 bytes. Raises `ScorerError` for any other file."""
    try:
        with open(path, 'rb') as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            place = _place_of_lexicon(content)
    except (OSError, ValueError) as error:
        raise ScorerError(f'--scorer_path={path}: {getattr(error, "strerror", None) or error}') from error
    if place < 0:
        raise ScorerError(
            f'--scorer_path={path}: is no .scorer, which alone keeps weights; bin/generate_scorer_package.py makes one'
        )
    return place + HEADER.size - WEIGHTS.size


def _vocabulary(path: str, content: mmap.mmap) -> tuple[str, ...]:
    named = named_words(content)
    if named is None:
        raise ScorerError(
            f'--scorer_path={path}: is a KenLM binary without the words of its model, or a .scorer that is cut off; '
            'give a .scorer, the ARPA file, or a binary with its words'
        )
    return named[1]


def _read_automaton(content: mmap.mmap, place: int) -> Automaton:
    """An OpenFst file of the type `const` over `standard` arcs. Raises `ValueError` or `struct.error`."""
    if struct.unpack_from('<I', content, place) != (FST_MAGIC,):
        raise ValueError('its lexicon is no OpenFst file')
    kind, place = _read_text(content, place + 4)
    arc, place = _read_text(content, place)
    if (kind, arc) != ('const', 'standard'):
        raise ValueError(f'its lexicon is an OpenFst file of the type {kind} over {arc} arcs')
    version, _, _, start, n_states, n_arcs = FST_NUMBERS.unpack_from(content, place)
    place += FST_NUMBERS.size
    aligned = version == FST_ALIGNED_VERSION
    states = np.frombuffer(content, FST_STATE, n_states, _align(place) if aligned else place).copy()
    place = (_align(place) if aligned else place) + states.nbytes
    arcs = np.frombuffer(content, FST_ARC, n_arcs, _align(place) if aligned else place).copy()
    sources = np.repeat(np.arange(n_states), states['arcs'])
    targets = arcs['target'].astype(np.int64)
    if len(sources) != n_arcs or not 0 <= start < n_states or not ((targets >= 0) & (targets < n_states)).all():
        raise ValueError('the numbers of its lexicon do not fit each other')
    labels = arcs['label'].astype(np.int64) - 1  # 0 means no label there
    return Automaton(start, sources, labels, targets, np.isfinite(states['final']))


def _align(place: int) -> int:
    return -(-place // FST_ALIGNMENT) * FST_ALIGNMENT


def _read_text(content: mmap.mmap, place: int) -> tuple[str, int]:
    (length,) = struct.unpack_from('<i', content, place)
    end = place + 4 + length
    if not 0 <= length <= 100 or end > len(content):
        raise ValueError('its lexicon ends early')
    return content[place + 4 : end].decode('ascii', 'replace'), end


def _read_arpa(path: str) -> ScorerFile:
    """Only the words; the file may be compressed with gzip."""
    with open(path, 'rb') as start:
        compressed = start.read(2) == GZIP_MAGIC
    words: list[str] = []
    with gzip.open(path, 'rb') if compressed else open(path, 'rb') as file:
        begun = False
        for number, line in enumerate(file):
            if number == 0 and b'\0' in line:
                break
            if line.startswith(b'\\'):
                if begun:
                    break
                begun = line.strip() == b'\\1-grams:'
            elif begun and len(fields := line.split()) > 1 and not fields[1].startswith(b'<'):
                words.append(fields[1].decode(errors='replace'))
    if not words:
        raise ScorerError(f'--scorer_path={path}: is no .scorer, no KenLM binary, and no ARPA file with words')
    return ScorerFile(path, words=tuple(words))
