"""Scorers of three kinds of files; see tests/system/test_reference_decoder.py for what DeepSpeech makes of them."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest

from deepspeech_training.decoding import BeamSearchDecoder, Scorer, ScorerOptions, SearchOptions, make_decoder
from deepspeech_training.decoding.scorer_file import read_scorer_file
from deepspeech_training.errors import ScorerError
from deepspeech_training.text.alphabet import Alphabet

ALPHABET = Alphabet(' abcn', 'abc.txt')

ARPA = """\\data\\
ngram 1=6
ngram 2=2

\\1-grams:
-1.0\t<unk>
0\t<s>\t-0.5
-1.5\t</s>
-0.7\tan\t-0.2
-0.9\tcab\t-0.3
-1.2\tban

\\2-grams:
-0.1\t<s> an
-0.3\tan cab

\\end\\
"""


def logits_of(path: str, certainty: float = 8.0) -> np.ndarray:
    """`path` has a character a frame, `_` for the blank."""
    return np.array([[certainty * (c == label) for label in (*ALPHABET.labels, '_')] for c in path], np.float32)


@pytest.fixture
def arpa(tmp_path: Path) -> str:
    (tmp_path / 'words.arpa').write_text(ARPA)
    return str(tmp_path / 'words.arpa')


def score(path: str, arpa: str, **options: object) -> float:
    scorer = Scorer(ScorerOptions(arpa, **options), ALPHABET)  # type: ignore[arg-type]
    (best,) = BeamSearchDecoder(ALPHABET, SearchOptions(50), scorer).best(logits_of(path, 100.0), 1)
    assert best.text == path.replace('_', '')
    return best.score


def test_words_are_scored_by_those_before_them(arpa: str) -> None:
    ln = math.log(10)
    assert score('an', arpa, alpha=2.0, beta=0.0) == pytest.approx(2 * -0.1 * ln, abs=1e-5)
    assert score('an cab', arpa, alpha=1.0, beta=0.5) == pytest.approx((-0.1 - 0.3) * ln + 2 * 0.5, abs=1e-5)
    backed_off = -0.5 - 0.9  # from the beginning of a sentence to a word that has no bigram with it
    assert score('cab', arpa, alpha=1.0, beta=0.0) == pytest.approx(backed_off * ln, abs=1e-5)
    assert score('_', arpa, alpha=1.0, beta=9.0) == 0.0  # no words


def test_hot_words_count_as_long_as_they_are_in_view(arpa: str) -> None:
    plain = score('an cab', arpa, alpha=1.5, beta=0.0)
    assert score('an cab', arpa, alpha=1.5, beta=0.0, hot_words={'an': 2.0}) == pytest.approx(plain + 1.5 * 2.0)
    assert score('an cab', arpa, alpha=1.5, beta=0.0, hot_words={'cab': 2.0}) == plain  # the last word is not boosted
    assert score('an cab ', arpa, alpha=1.5, beta=0.0, hot_words={'cab': 2.0}) == pytest.approx(plain + 1.5 * 2.0)
    both = score('an cab ', arpa, alpha=1.5, beta=0.0, hot_words={'an': 2.0})
    assert both == pytest.approx(plain + 2 * 1.5 * 2.0)  # with the word behind it once more: the order is 2


def test_unknown_words_cannot_be_written(arpa: str) -> None:
    scorer = Scorer(ScorerOptions(arpa), ALPHABET)
    logits = logits_of('bbn', 3.0)
    assert make_decoder(ALPHABET, 100).decode(logits) == 'bn'
    assert make_decoder(ALPHABET, 100, scorer).decode(logits) in ('ban', 'an')


def test_weights_are_those_of_deepspeech_unless_given(arpa: str) -> None:
    scorer = Scorer(ScorerOptions(arpa), ALPHABET)
    assert (scorer.alpha, scorer.beta, scorer.order) == (0.931289039105002, 1.1834137581510284, 2)
    scorer = Scorer(ScorerOptions(arpa, alpha=0.0, beta=0.0), ALPHABET)
    assert (scorer.alpha, scorer.beta) == (0.0, 0.0)


def test_the_weights_of_a_scorer_file(deepspeech_data: Path) -> None:
    path = str(deepspeech_data / 'deepspeech-0.9.3' / 'ldc93s1' / 'pruned_lm.scorer')
    english = Alphabet(" abcdefghijklmnopqrstuvwxyz'")
    scorer = Scorer(ScorerOptions(path), english)
    assert (scorer.alpha, scorer.beta) == (0.75, pytest.approx(1.85))
    words = set((Path(path).parent / 'vocab.pruned.txt').read_text().split())
    trie = Scorer(ScorerOptions(path), english).lexicon

    def accepted(word: str) -> bool:
        state = np.array([trie.start])
        for label in english.encode(f'{word} '):
            state = trie.follow(state, np.array([label])) if state[0] >= 0 else state
        return bool(state[0] == trie.start)

    assert all(accepted(word) for word in sorted(words)[:500] if not english.unknown(word))
    assert not any(accepted(word) for word in ('', 'xq', 'thez', 'aaa'))


def test_a_compressed_arpa_file_has_the_same_words(arpa: str, tmp_path: Path) -> None:
    packed = tmp_path / 'words.arpa.gz'
    packed.write_bytes(gzip.compress(Path(arpa).read_bytes()))
    assert read_scorer_file(str(packed)).words == read_scorer_file(arpa).words == ('an', 'cab', 'ban')
    assert score('an cab', str(packed)) == score('an cab', arpa)


def test_files_that_are_no_language_model(arpa: str, tmp_path: Path) -> None:
    path = tmp_path / 'file'
    for content, message in (
        (None, f'--scorer_path={path}: No such file'),
        (b'', f'--scorer_path={path}: the file is empty'),
        (b'RIFF' + bytes(100), f'--scorer_path={path}: is no .scorer, no KenLM binary, and no ARPA file'),
        (Path(arpa).read_bytes()[:-40], f'--scorer_path={path}: KenLM cannot read it: '),
    ):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ScorerError) as caught:
            Scorer(ScorerOptions(str(path)), ALPHABET)
        assert str(caught.value).startswith(message)
    with pytest.raises(ScorerError, match=r"no word of it can be spelled with the alphabet 'x.txt'"):
        Scorer(ScorerOptions(arpa), Alphabet(' xyz', 'x.txt'))
    with pytest.raises(ScorerError, match=r"words need a space in the alphabet, which 'a.txt' lacks"):
        Scorer(ScorerOptions(arpa), Alphabet('abcn', 'a.txt'))


@pytest.mark.parametrize('cut', [0.3, 0.55, 0.7, 0.99])
def test_a_scorer_file_that_is_cut_off(cut: float, deepspeech_data: Path, tmp_path: Path) -> None:
    content = (deepspeech_data / 'deepspeech-0.9.3' / 'ldc93s1' / 'pruned_lm.scorer').read_bytes()
    path = tmp_path / 'cut.scorer'
    path.write_bytes(content[: int(cut * len(content))])
    with pytest.raises(ScorerError, match=r'cut.scorer: .*(cut off|damaged|KenLM cannot read it)'):
        Scorer(ScorerOptions(str(path)), Alphabet(" abcdefghijklmnopqrstuvwxyz'"))


def test_a_magic_number_by_chance_makes_no_lexicon(deepspeech_data: Path, tmp_path: Path) -> None:
    """A large model has so many numbers that one of them may be that of the header."""
    content = (deepspeech_data / 'deepspeech-0.9.3' / 'ldc93s1' / 'pruned_lm.scorer').read_bytes()
    header = content.rindex(b'EIRT\6\0\0\0')
    path = tmp_path / 'chance.scorer'
    path.write_bytes(content + b'EIRT' + bytes(100))
    assert read_scorer_file(str(path)).automaton is not None
    path.write_bytes(content[:header].replace(b'\0' * 40, b'EIRT' + b'\0' * 36, 1) + b'<unk>\0an\0cab\0')
    assert read_scorer_file(str(path)).words == ('an', 'cab')
