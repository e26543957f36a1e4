"""What is written is what was meant, and is read back as such."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepspeech_training.decoding import Scorer, ScorerOptions
from deepspeech_training.decoding.lexicon_file import automaton_bytes, minimal_automaton
from deepspeech_training.decoding.scorer_file import HEADER, MAGIC, Automaton, read_scorer_file
from deepspeech_training.decoding.scorer_package import (
    HAS_WORDS,
    make_lexicon,
    read_language_model,
    write_scorer_package,
)
from deepspeech_training.errors import ScorerError
from deepspeech_training.text.alphabet import Alphabet

ENGLISH = Alphabet(" abcdefghijklmnopqrstuvwxyz'", 'english.txt')
WORDS = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=6).map(tuple), min_size=1, max_size=30)


@pytest.fixture
def ldc93s1(deepspeech_data: Path) -> Path:
    return deepspeech_data / 'deepspeech-0.9.3' / 'ldc93s1'


def words_of(automaton: Automaton) -> set[tuple[int, ...]]:
    """All that lead from the start to a final state, with their space."""
    arcs: dict[int, list[tuple[int, int]]] = {}
    for source, label, target in zip(automaton.sources, automaton.labels, automaton.targets, strict=True):
        arcs.setdefault(int(source), []).append((int(label), int(target)))
    found = set()
    ways: list[tuple[int, tuple[int, ...]]] = [(automaton.start, ())]
    while ways:
        state, labels = ways.pop()
        if automaton.final[state]:
            found.add(labels)
        ways += [(target, (*labels, label)) for label, target in arcs.get(state, [])]
    return found


def states_needed(words: set[tuple[int, ...]]) -> int:
    """By Myhill and Nerode: beginnings of words that have not the same ends."""
    beginnings = {word[:length] for word in words for length in range(len(word) + 1)}
    return len({frozenset(w[len(b) :] for w in words if w[: len(b)] == b) for b in beginnings})


@given(WORDS)
def test_the_automaton_has_the_words_and_no_state_too_many(words: list[tuple[int, ...]]) -> None:
    automaton = minimal_automaton(words, 0)
    expected = {(*word, 0) for word in words}
    assert words_of(automaton) == expected
    assert len(automaton.final) == states_needed(expected)
    keys = automaton.sources * 5 + automaton.labels
    assert (np.diff(keys) > 0).all()  # sorted by state and label, each label once


@pytest.mark.parametrize('words', [[], [()], [(1, 2), ()]])
def test_no_words(words: list[tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match=r'no words|without labels'):
        minimal_automaton(words, 0)


def test_the_same_lexicon_as_deepspeechs(ldc93s1: Path, tmp_path: Path) -> None:
    """As many states and arcs, the same words; the file has the same size and OpenFst's properties."""
    original = ldc93s1 / 'pruned_lm.scorer'
    model = read_language_model(str(original))
    lexicon = make_lexicon((ldc93s1 / 'vocab.pruned.txt').read_text().split(), model, ENGLISH)
    assert (lexicon.words, lexicon.not_in_alphabet, lexicon.not_in_model) == (3540, (), ())
    path = tmp_path / 'new' / 'own.scorer'
    write_scorer_package(str(path), model, lexicon.automaton, 0.5, -1.25)

    file, reference = read_scorer_file(str(path)), read_scorer_file(str(original))
    assert (file.alpha, file.beta, file.for_bytes) == (0.5, -1.25, False)
    assert file.automaton is not None
    assert reference.automaton is not None
    for name in ('start', 'sources', 'labels', 'targets', 'final'):
        assert np.array_equal(getattr(file.automaton, name), getattr(lexicon.automaton, name))
    assert words_of(file.automaton) == words_of(reference.automaton)
    assert len(file.automaton.final) == len(reference.automaton.final)
    assert path.stat().st_size == original.stat().st_size
    behind = model.size + HEADER.size
    assert path.read_bytes()[behind : behind + 49] == original.read_bytes()[behind : behind + 49]  # FST's header
    assert path.read_bytes()[: model.size] == original.read_bytes()[: model.size]
    assert (path.stat().st_mode & 0o444) == 0o444
    assert [each.name for each in path.parent.iterdir()] == ['own.scorer']


def test_numbers_are_aligned_wherever_the_lexicon_begins() -> None:
    automaton = minimal_automaton([(1, 2), (1, 3)], 0)
    for place in range(20):
        content = automaton_bytes(automaton, place)
        assert (place + len(content) - 16 * len(automaton.labels)) % 16 == 0


def test_a_chain_of_states_is_said_to_be_one() -> None:
    def properties(words: list[tuple[int, ...]]) -> int:
        (result,) = struct.unpack_from('<Q', automaton_bytes(minimal_automaton(words, 0), 0), 4 + 9 + 12 + 8)
        return int(result)

    string, not_string = 1 << 44, 1 << 45
    assert properties([(1, 2, 3)]) & (string | not_string) == string
    branches: list[list[tuple[int, ...]]] = [[(1,), (2,)], [(1, 2), (1,)]]
    for words in branches:
        assert properties(words) & (string | not_string) == not_string


def test_words_that_cannot_be_written_are_left_out(ldc93s1: Path) -> None:
    model = read_language_model(str(ldc93s1 / 'pruned_lm.scorer'))
    lexicon = make_lexicon(['spot', 'word', 'Straße', 'word', 'abrakadabra'], model, ENGLISH)
    assert (lexicon.words, lexicon.not_in_alphabet, lexicon.not_in_model) == (2, ('Straße',), ('abrakadabra',))
    spellings = {''.join(ENGLISH.labels[label] for label in word) for word in words_of(lexicon.automaton)}
    assert spellings == {'spot ', 'word '}
    with pytest.raises(ScorerError, match=r"1 not in the alphabet, as 'ß'; 1 unknown to the model, as 'abrakadabra'"):
        make_lexicon(['ß', 'abrakadabra'], model, ENGLISH)
    with pytest.raises(ScorerError, match='words need a space'):
        make_lexicon(['spot'], model, Alphabet('spot'))


def test_names_of_words_are_cut_away(ldc93s1: Path, tmp_path: Path) -> None:
    """The clients look for the lexicon right behind KenLM's tables."""
    original = read_language_model(str(ldc93s1 / 'pruned_lm.scorer'))
    tables = bytearray((ldc93s1 / 'pruned_lm.scorer').read_bytes()[: original.size])
    tables[HAS_WORDS] = 1
    named = tmp_path / 'named.binary'
    named.write_bytes(bytes(tables) + b'<unk>\0spot\0<s>\0word\0</s>\0')
    model = read_language_model(str(named))
    assert (model.size, model.words) == (original.size, ('spot', 'word'))
    write_scorer_package(str(tmp_path / 'a'), model, make_lexicon(['spot'], model, ENGLISH).automaton, 1.0, 1.0)
    tables[HAS_WORDS] = 0
    content = (tmp_path / 'a').read_bytes()
    assert content[: model.size] == tables
    assert content[model.size :][:4] == struct.pack('<I', MAGIC)
    assert Scorer(ScorerOptions(str(tmp_path / 'a')), ENGLISH).order == 4


def test_a_failure_leaves_what_was_there(ldc93s1: Path, tmp_path: Path, small_disk: Path) -> None:
    model = read_language_model(str(ldc93s1 / 'pruned_lm.scorer'))
    automaton = make_lexicon(['spot'], model, ENGLISH).automaton
    path = small_disk / 'a.scorer'
    path.write_bytes(b'before' * 150_000)
    with pytest.raises(ScorerError, match=r'--package=.*a.scorer: cannot be written: No space left'):
        write_scorer_package(str(path), model, automaton, 1.0, 1.0)
    assert path.read_bytes() == b'before' * 150_000
    assert [each.name for each in small_disk.iterdir()] == ['a.scorer']
    with pytest.raises(ScorerError, match='Is a directory'):
        write_scorer_package(str(tmp_path), model, automaton, 1.0, 1.0)


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (None, 'No such file'),
        (b'', 'is no KenLM binary'),
        (bytes(1000), 'is neither a KenLM binary nor an ARPA file'),
        (
            b'mmap lm http://kheafield.com/code'.ljust(0x5C, b'\0') + b'\0' * 4 + b'\5' + b'\xff' * 400,
            'cut off|damaged',
        ),
    ],
)
def test_files_that_are_no_language_model(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / 'lm'
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ScorerError, match=rf'--lm={path}: .*({message})'):
        read_language_model(str(path))
