"""Scorers for models of bytes: the units are characters, each of one to four labels."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from deepspeech_training.decoding import BeamSearchDecoder, Scorer, ScorerOptions, SearchOptions
from deepspeech_training.decoding.lexicon_file import minimal_automaton
from deepspeech_training.decoding.scorer_check import check_scorer_package
from deepspeech_training.decoding.scorer_file import Automaton
from deepspeech_training.decoding.space_word import ENDS, find_space_word, make_space_word
from deepspeech_training.decoding.vocabulary import murmur_hash
from deepspeech_training.errors import ScorerError
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.byte_alphabet import ByteAlphabet
from tests.decoding.test_scorer_check import small_scorer

BYTES = ByteAlphabet()
ENGLISH = Alphabet(" abcdefghijklmnopqrstuvwxyz'", 'english.txt')
LN = math.log(10)

ARPA = """\\data\\
ngram 1=6
ngram 2=1

\\1-grams:
-1.0\t<unk>
0\t<s>\t-0.5
-1.5\t</s>
-0.7\tя\t-0.2
-0.9\tx\t-0.3
-1.2\t字

\\2-grams:
-0.3\tя x

\\end\\
"""


@pytest.fixture
def arpa(tmp_path: Path) -> str:
    (tmp_path / 'characters.arpa').write_text(ARPA, encoding='utf-8')
    return str(tmp_path / 'characters.arpa')


def logits_of(content: bytes, certainty: float = 100.0) -> np.ndarray:
    """A byte a frame, with blanks between them."""
    path = [label for byte in content for label in (byte - 1, BYTES.blank)]
    logits = np.zeros([max(len(path), 1), BYTES.size + 1], np.float32)
    logits[np.arange(len(path)), path] = certainty
    logits[:, BYTES.blank] += 0 if path else certainty
    return logits


def score(text: str, arpa: str, **options: object) -> float:
    scorer = Scorer(ScorerOptions(arpa, **options), BYTES)  # type: ignore[arg-type]
    (best,) = BeamSearchDecoder(BYTES, SearchOptions(50), scorer).best(logits_of(text.encode()), 1)
    assert best.text == text
    return best.score


def test_characters_are_scored_by_those_before_them(arpa: str) -> None:
    assert score('я', arpa, alpha=2.0, beta=0.5) == pytest.approx(2 * (-0.5 - 0.7) * LN + 0.5, abs=1e-5)
    assert score('яx', arpa, alpha=1.0, beta=0.5) == pytest.approx((-0.5 - 0.7 - 0.3) * LN + 1.0, abs=1e-5)
    assert score('x字', arpa, alpha=1.0, beta=0.0) == pytest.approx((-0.5 - 0.9 - 0.3 - 1.2) * LN, abs=1e-5)
    assert score('', arpa, alpha=1.0, beta=0.25) == 0.25  # as in DeepSpeech's decoder


def test_hot_characters(arpa: str) -> None:
    plain = score('яx', arpa, alpha=1.5, beta=0.0)
    assert score('яx', arpa, alpha=1.5, beta=0.0, hot_words={'x': 2.0}) == pytest.approx(plain + 1.5 * 2.0)
    both = score('яx', arpa, alpha=1.5, beta=0.0, hot_words={'я': 2.0})
    assert both == pytest.approx(plain + 2 * 1.5 * 2.0)  # for the character behind it once more: the order is 2
    with pytest.raises(ScorerError, match=r'--hot_words=яx: .*single characters only'):
        Scorer(ScorerOptions(arpa, hot_words={'я': 1.0, 'яx': 1.0}), BYTES)


def test_only_known_characters_can_be_written(arpa: str) -> None:
    scorer = Scorer(ScorerOptions(arpa), BYTES)
    decoder = BeamSearchDecoder(BYTES, SearchOptions(100), scorer)
    for content in ('ы', 'яыx', '文'):
        assert set(decoder.decode(logits_of(content.encode(), 5.0))) <= set('яx字')
    half = decoder.best(logits_of('x字'.encode()[:-1]), 100)
    assert set(half[0].text) <= set('яx字')
    assert any('\ufffd' in each.text and each.score < -900 for each in half)


def test_letters_and_bytes_do_not_fit(arpa: str, tmp_path: Path) -> None:
    letters, of_bytes, words = tmp_path / 'letters.scorer', tmp_path / 'bytes.scorer', tmp_path / 'words.arpa'
    letters.write_bytes(small_scorer(['a', 'b'], ENGLISH, known=['a', 'b']))
    of_bytes.write_bytes(small_scorer(['a', 'b'], ENGLISH, known=['a', 'b'], of_bytes=1))
    words.write_text(ARPA.replace('字', 'слово'), encoding='utf-8')
    for path, alphabet, message in (
        (letters, BYTES, r'was made for a model that writes the characters of an alphabet.*--force_bytes_output_mode'),
        (of_bytes, ENGLISH, r'was made for a model that writes bytes of UTF-8 \(--bytes_output_mode\)'),
        (words, BYTES, "has words, such as 'слово', where a model of bytes needs characters"),
    ):
        with pytest.raises(ScorerError, match=f'--scorer_path={path}: {message}'):
            Scorer(ScorerOptions(str(path)), alphabet)
    with pytest.raises(ScorerError, match='for a model that writes the characters'):
        check_scorer_package(str(letters), BYTES)


def test_the_entries_of_a_lexicon_are_characters() -> None:
    labels = [tuple(BYTES.encode(character)) for character in 'я ю字x😀']
    assert sorted(minimal_automaton(labels, None).characters()) == sorted(labels)
    for entries in ([BYTES.encode('яя')], [[207]], [[96, 97]], [[1] * 5]):
        with pytest.raises(ValueError, match=r'more than the bytes|no character'):
            list(minimal_automaton(entries, None).characters())
    loop = Automaton(0, np.array([0]), np.array([96]), np.array([0]), np.array([False]))
    with pytest.raises(ValueError, match='more than the bytes of characters'):
        list(loop.characters())


@pytest.mark.parametrize('letters', ['', 'x', 'абвгдежзийклмнопрстуфхцчшщ', [chr(0x4E00 + n) for n in range(2000)]])
def test_a_word_for_the_space_has_its_place(letters: str | list[str]) -> None:
    word = make_space_word(list(letters))
    assert find_space_word([*letters, word]) == word
    assert find_space_word(letters) is None

    def place(other: str) -> int:
        return sorted(murmur_hash(each.encode()) for each in (*letters, *ENDS, other)).index(
            murmur_hash(other.encode())
        )

    assert place(word) == place(' ')
