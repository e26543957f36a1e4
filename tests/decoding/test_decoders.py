from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from deepspeech_training.decoding import BeamSearchDecoder, SearchOptions, make_decoder
from deepspeech_training.text.alphabet import Alphabet


@pytest.fixture(scope='module')
def decoder() -> Iterator[BeamSearchDecoder]:
    decoder = BeamSearchDecoder(Alphabet('ab'), SearchOptions(100))
    yield decoder
    decoder.close()


def most_likely_text(logits: np.ndarray, labels: str) -> str:
    """By adding up the probabilities of all paths: only for a few frames."""
    blank = len(labels)
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    totals: dict[str, float] = defaultdict(float)
    for path in itertools.product(range(blank + 1), repeat=len(logits)):
        collapsed = [label for label, _ in itertools.groupby(path) if label != blank]
        probability = np.exp(sum(log_probs[frame, label] for frame, label in enumerate(path)))
        totals[''.join(labels[label] for label in collapsed)] += probability
    return max(totals, key=lambda text: totals[text])


@pytest.mark.parametrize('seed', range(20))
def test_the_search_finds_the_text_of_the_highest_total_probability(decoder: BeamSearchDecoder, seed: int) -> None:
    logits = np.random.default_rng(seed).normal(size=(6, 3)).astype(np.float32)
    assert decoder.decode(logits) == most_likely_text(logits, 'ab')


def test_a_repeated_letter_needs_a_blank_between(decoder: BeamSearchDecoder) -> None:
    def path(text: str) -> np.ndarray:
        return np.array([[10.0 * (c == 'ab-'[label]) for label in range(3)] for c in text], np.float32)

    assert decoder.decode(path('aa-ab')) == 'aab'
    assert decoder.decode(path('---')) == ''


def test_no_frames_give_no_text(decoder: BeamSearchDecoder) -> None:
    assert decoder.decode(np.zeros((0, 3), np.float32)) == ''


def test_threads_share_a_decoder(decoder: BeamSearchDecoder) -> None:
    random = np.random.default_rng(0)
    utterances = [random.normal(size=(length, 3)).astype(np.float32) for length in range(1, 40)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(decoder.decode, utterances)) == [decoder.decode(u) for u in utterances]


def test_the_best_path() -> None:
    decoder = make_decoder(Alphabet('ab'), beam_width=1)
    logits = np.array([[10.0 * (c == 'ab-'[label]) for label in range(3)] for c in '-aa-abb--b'], np.float32)
    assert decoder.decode(logits) == 'aabb'
    assert decoder.decode(logits[:1]) == decoder.decode(logits[:0]) == ''
