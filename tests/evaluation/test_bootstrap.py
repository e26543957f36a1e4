"""Confidence intervals, against the bootstrap of the textbooks and the known rate."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from deepspeech_training.evaluation.bootstrap import REPLICATES, Bootstrap

Counts = npt.NDArray[np.int64]


def utterances(count: int, seed: int, rate: float = 0.2) -> Counts:
    """Word errors, words, character errors, characters `[count, 4]`; some speakers are worse than others."""
    random = np.random.default_rng(seed)
    words = random.integers(1, 12, count)
    own_rate = np.clip(rate + random.uniform(-0.15, 0.15, count), 0, 1)
    errors = random.binomial(words, own_rate)
    return np.stack([errors, words, 2 * errors, 5 * words], axis=1)


def bootstrap(counts: Counts, number: int = 0) -> Bootstrap:
    made = Bootstrap(number)
    for line, row in enumerate(counts.tolist()):
        made.add(line, *row)
    return made


def test_bounds_are_those_of_drawing_utterances_again() -> None:
    counts = utterances(300, seed=1)
    random = np.random.default_rng(2)
    drawn = counts[random.integers(0, len(counts), [4000, len(counts)])].sum(axis=1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    found = bootstrap(counts).wer()
    assert found.low == pytest.approx(low, abs=0.1 * (high - low))
    assert found.high == pytest.approx(high, abs=0.1 * (high - low))


def test_the_true_rate_is_within_them_about_as_often_as_they_say() -> None:
    inside = 0
    for seed in range(100):
        found = bootstrap(utterances(60, seed), seed).wer()
        inside += found.low <= 0.2 <= found.high
    assert 86 <= inside <= 100


def test_the_order_makes_no_difference_and_each_run_gives_the_same() -> None:
    counts = utterances(20, seed=3)
    backwards = Bootstrap()
    for line in reversed(range(20)):
        backwards.add(line, *counts[line].tolist())
    assert np.array_equal(bootstrap(counts).totals, backwards.totals)
    assert bootstrap(counts).wer() == backwards.wer()
    assert not np.array_equal(bootstrap(counts, number=1).totals, backwards.totals)


def test_several_sets_are_narrower_together() -> None:
    one, other = bootstrap(utterances(100, seed=4)), bootstrap(utterances(100, seed=5), number=1)
    width = one.cer().high - one.cer().low
    one.add_all(other)
    assert one.totals[3].mean() == pytest.approx(5 * (utterances(100, 4) + utterances(100, 5))[:, 1].sum(), rel=0.02)
    assert 0 < one.cer().high - one.cer().low < 0.9 * width


def test_it_does_not_grow() -> None:
    made = bootstrap(utterances(500, seed=6))
    assert made.totals.shape == (4, REPLICATES)
    assert {name for name, value in vars(made).items() if isinstance(value, (np.ndarray, list, dict))} == {'totals'}


def test_one_utterance_says_nothing_of_others_and_none_even_less() -> None:
    found = bootstrap(np.array([[1, 4, 1, 20]])).wer()
    assert (found.low, found.high) == (0.25, 0.25)
    assert (Bootstrap().wer().low, Bootstrap().wer().high) == (0.0, 0.0)
    assert bootstrap(np.array([[1, 0, 3, 0]])).wer().high == 0.0
