"""A scorer is for one alphabet."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from deepspeech_training.decoding.scorer_check import check_scorer_package
from deepspeech_training.decoding.scorer_file import FST_MAGIC
from deepspeech_training.decoding.vocabulary import murmur_hash
from deepspeech_training.errors import ScorerError
from deepspeech_training.text.alphabet import Alphabet

LETTERS = 'abcdefghijklmnopqrstuvwxyz'
ENGLISH = Alphabet(f" {LETTERS}'", 'english.txt')


@pytest.fixture
def pruned_lm(deepspeech_data: Path) -> Path:
    return deepspeech_data / 'deepspeech-0.9.3' / 'ldc93s1' / 'pruned_lm.scorer'


def small_scorer(
    words: list[str], alphabet: Alphabet, *, known: list[str], version: int = 6, of_bytes: int = 0
) -> bytes:
    """A file as DeepSpeech makes it, but without n-grams: header, hashes of words, an automaton with a way per word."""
    content = b'mmap lm http://kheafield.com/code format version 5\n\0'.ljust(0x58, b'\0')
    content += struct.pack('<BxxxfIII', 1, 1.5, 5, 0, 1) + struct.pack('<Q', len(known))
    content += bytes(-len(content) % 8)
    content += struct.pack(f'<{len(known) + 1}Q', len(known), *sorted(murmur_hash(word.encode()) for word in known))

    arcs: list[list[tuple[int, int]]] = [[]]  # of each state, label and next state
    for word in words:
        state = 0
        for label in alphabet.encode(f'{word} '):
            arcs.append([])
            arcs[state].append((label + 1, len(arcs) - 1))
            state = len(arcs) - 1
    content += struct.pack('<4siBdd', b'EIRT', version, of_bytes, 1.0, 1.0) + struct.pack('<i', FST_MAGIC)
    content += b''.join(struct.pack('<i', len(kind)) + kind for kind in (b'const', b'standard'))
    content += struct.pack('<iiQqqq', 1, 4, 0, 0, len(arcs), len(arcs) - 1)
    content += bytes(-len(content) % 16)
    first = 0
    for leaving in arcs:
        content += struct.pack('<f4I', 0.0 if not leaving else float('inf'), first, len(leaving), 0, 0)
        first += len(leaving)
    content += bytes(-len(content) % 16)
    return content + b''.join(struct.pack('<iifi', label, label, 0.0, to) for leaving in arcs for label, to in leaving)


def test_deepspeechs_scorer_fits_its_alphabet_only(pruned_lm: Path, caplog: pytest.LogCaptureFixture) -> None:
    check_scorer_package(str(pruned_lm), ENGLISH)
    check_scorer_package(str(pruned_lm), Alphabet([*ENGLISH.labels, 'ä']))  # longer, and the same up to there
    assert caplog.text == ''
    for labels in (f"{LETTERS} '", f" {LETTERS[::-1]}'", ' абвгдежзийклмнопрстуфхцчшщъыьэюя'):
        with pytest.raises(ScorerError, match=r'pruned_lm.scorer: was made with another alphabet than other.txt'):
            check_scorer_package(str(pruned_lm), Alphabet(labels, 'other.txt'))
    with pytest.raises(ScorerError, match=r'it has 2[78] labels or more, the alphabet 4'):
        check_scorer_package(str(pruned_lm), Alphabet(' abc', 'short.txt'))


@pytest.mark.parametrize('letters', [LETTERS, 'абвгдежзийклмнопрстуфхцчшщ'])
def test_words_that_are_not_in_the_language_model(
    letters: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    alphabet = Alphabet(f' {letters}')
    words = [letters[start : start + 9] for start in range(16)]
    path = tmp_path / 'small.scorer'
    path.write_bytes(small_scorer(words, alphabet, known=words))
    check_scorer_package(str(path), alphabet)
    assert caplog.text == ''
    path.write_bytes(small_scorer(words, alphabet, known=words[4:]))
    check_scorer_package(str(path), alphabet)
    assert '% of the words in its lexicon, such as ' in caplog.text
    path.write_bytes(small_scorer(words, alphabet, known=words[12:]))
    with pytest.raises(ScorerError, match='does not know its own words'):
        check_scorer_package(str(path), alphabet)


def test_files_that_are_no_scorer(tmp_path: Path) -> None:
    path = tmp_path / 'file'
    good = small_scorer(['a', 'b'], ENGLISH, known=['a', 'b'])
    for content, message in (
        (None, 'No such file'),
        (b'', 'the file is empty'),
        (b'PK\3\4' + bytes(1000), 'is no .scorer, no KenLM binary, and no ARPA file'),
        (good[:100], 'without the words of its model'),
        (good[:-20], 'is damaged'),
        (small_scorer(['a'], ENGLISH, known=['a'], version=5), 'has version 5'),
        (small_scorer(['a'], ENGLISH, known=['a'], of_bytes=1), 'bytes of UTF-8'),
    ):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ScorerError, match=message):
            check_scorer_package(str(path), ENGLISH)
    with pytest.raises(ScorerError, match='Is a directory'):
        check_scorer_package(str(tmp_path), ENGLISH)


@pytest.mark.parametrize(
    ('key', 'expected'),
    # What others give for MurmurHash64A; DeepSpeech's scorer above has thousands more.
    [(b'', 0), (b'a', 0x071717D2D36B6B11), (b'hello', 0x1E68D17C457BF117)],
)
def test_hash(key: bytes, expected: int) -> None:
    assert murmur_hash(key) == expected
