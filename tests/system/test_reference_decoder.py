"""The decoder finds what DeepSpeech's own, `ds_ctcdecoder` 0.9.3, finds, with the same scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepspeech_training.decoding import BeamSearchDecoder, Scorer, ScorerOptions, SearchOptions
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.byte_alphabet import ByteAlphabet
from tests.system.character_scorer import scorer_of_characters
from tests.system.clients import Client, ask

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = Client('ds_ctcdecoder==0.9.3', '3.7', 'reference_decoder.py')
ENGLISH = Alphabet.from_file(str(ROOT / 'data' / 'alphabet.txt'))

SENTENCES = (
    'she had your dark suit in greasy wash water all year',
    'one two three four five',
    'the old man and the sea',
    "that isn't what he said",
    'a',
    'leave the door',
)

Probabilities = dict[str, np.ndarray]


def heard(sentence: str, seed: int, alphabet: Alphabet = ENGLISH) -> np.ndarray:
    """Probabilities as a model of middling quality gives them: letters for a frame or two, blanks, and confusion."""
    random = np.random.default_rng(seed)
    path: list[int] = []
    for label in alphabet.encode(sentence):
        path += [label] * int(random.integers(1, 3)) + [alphabet.blank] * int(random.integers(1, 4))
    logits = random.normal(scale=2.0, size=(len(path), alphabet.size + 1))
    logits[np.arange(len(path)), path] += random.uniform(1.0, 9.0, len(path))
    exponentials = np.exp(logits)
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


@pytest.fixture(scope='module')
def utterances() -> Probabilities:
    return {f'{sentence} {seed}': heard(sentence, seed) for seed, sentence in enumerate(SENTENCES * 2)}


def compare(
    utterances: Probabilities, searches: list[dict[str, Any]], tmp_path: Path, alphabet: Alphabet = ENGLISH
) -> None:
    np.savez(tmp_path / 'probabilities.npz', **utterances)  # type: ignore[arg-type]
    question = {
        'alphabet': '' if alphabet.of_bytes else str(ROOT / 'data' / 'alphabet.txt'),
        'probabilities': str(tmp_path / 'probabilities.npz'),
        'searches': searches,
    }
    answers = ask(REFERENCE, question).result['results']
    for search, expected in zip(searches, answers, strict=True):
        scorer = None
        if search.get('scorer'):
            hot_words = search.get('hot_words', {})
            scorer = Scorer(
                ScorerOptions(search['scorer'], search['alpha'], search['beta'], hot_words=hot_words), alphabet
            )
        decoder = BeamSearchDecoder(alphabet, SearchOptions(search['beam_width']), scorer)
        for name, probabilities in utterances.items():
            found = decoder.best(np.log(probabilities), search['count'])
            assert [each.text for each in found] == [text for text, _ in expected[name]], (name, search)
            # The other one computes in float32.
            assert [each.score for each in found] == pytest.approx([score for _, score in expected[name]], rel=1e-3)


def test_without_scorer(utterances: Probabilities, tmp_path: Path) -> None:
    compare(utterances, [{'beam_width': width, 'count': 3} for width in (20, 100)], tmp_path)


SENTENCES_IN_BYTES = ('нажмите один', 'ёж', '早上好', 'größe x', 'я')
"""Of one to three bytes a character."""


@pytest.fixture(scope='module')
def utterances_in_bytes() -> Probabilities:
    return {sentence: heard(sentence, seed, ByteAlphabet()) for seed, sentence in enumerate(SENTENCES_IN_BYTES)}


def test_bytes_without_scorer(utterances_in_bytes: Probabilities, tmp_path: Path) -> None:
    compare(utterances_in_bytes, [{'beam_width': 20, 'count': 3}], tmp_path, ByteAlphabet())


def test_bytes_with_scorer(utterances_in_bytes: Probabilities, tmp_path: Path) -> None:
    path = scorer_of_characters([*SENTENCES_IN_BYTES, 'нажмите два', 'ежи жмут', '好早'], tmp_path)
    searches: list[dict[str, Any]] = [
        {'beam_width': 100, 'count': 1, 'scorer': path, 'alpha': 0.9, 'beta': 1.0},
        {'beam_width': 500, 'count': 3, 'scorer': path, 'alpha': 0.5, 'beta': 0.0},
        {'beam_width': 100, 'count': 1, 'scorer': path, 'alpha': 1.5, 'beta': -0.5},
        {'beam_width': 100, 'count': 1, 'scorer': path, 'alpha': 0.9, 'beta': 1.0, 'hot_words': {'ж': 3.0, '早': -9.0}},
    ]
    compare(utterances_in_bytes, searches, tmp_path, ByteAlphabet())


def test_with_scorer_and_hot_words(utterances: Probabilities, deepspeech_data: Path, tmp_path: Path) -> None:
    path = str(deepspeech_data / 'deepspeech-0.9.3' / 'ldc93s1' / 'pruned_lm.scorer')
    searches: list[dict[str, Any]] = [
        {'beam_width': 100, 'count': 1, 'scorer': path, 'alpha': 0.93, 'beta': 1.18},
        {'beam_width': 500, 'count': 3, 'scorer': path, 'alpha': 0.75, 'beta': 1.85},
        {'beam_width': 100, 'count': 1, 'scorer': path, 'alpha': 2.0, 'beta': -0.5},
    ]
    searches.append({**searches[0], 'hot_words': {'three': 7.5, 'sea': -9.0, 'water': 3.0}})
    compare(utterances, searches, tmp_path)


def test_on_the_logits_of_a_real_model(deepspeech_data: Path, tmp_path: Path) -> None:
    with np.load(deepspeech_data / 'deepspeech-0.9.3' / 'resume-check' / 'features_logits.npz') as figures:
        logits = {name: figures[name].astype(np.float64) for name in figures.files if name.startswith('logits/')}
    utterances = {}
    for name, values in logits.items():
        exponentials = np.exp(values - values.max(axis=1, keepdims=True))
        utterances[name.replace('/', ' ')] = exponentials / exponentials.sum(axis=1, keepdims=True)
    path = str(deepspeech_data / 'deepspeech-0.9.3' / 'ldc93s1' / 'pruned_lm.scorer')
    searches: list[dict[str, Any]] = [
        {'beam_width': 100, 'count': 1},
        {'beam_width': 100, 'count': 1, 'scorer': path, 'alpha': 0.93, 'beta': 1.18},
    ]
    compare(utterances, searches, tmp_path)
