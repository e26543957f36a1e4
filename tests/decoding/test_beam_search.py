from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from deepspeech_training.decoding.beam_search import SearchOptions, log_softmax, prefix_beam_search
from deepspeech_training.decoding.lexicon import Lexicon
from deepspeech_training.decoding.prefixes import ROOT, PrefixTree

Logits = npt.NDArray[np.float64]


def noisy_logits(frames: int, labels: int, seed: int, sharpness: float = 2.0) -> Logits:
    return np.random.default_rng(seed).normal(size=(frames, labels + 1)) * sharpness


def plain_search(logits: Logits, width: int) -> dict[tuple[int, ...], float]:
    """Prefix beam search as the papers write it, with dictionaries; nothing is left out."""
    blank = logits.shape[1] - 1
    beam: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -math.inf)}
    for frame in log_softmax(logits):
        following: dict[tuple[int, ...], tuple[float, float]] = {}

        def add(text: tuple[int, ...], in_blank: float, in_label: float) -> None:
            before = following.get(text, (-math.inf, -math.inf))  # noqa: B023
            following[text] = (np.logaddexp(before[0], in_blank), np.logaddexp(before[1], in_label))  # noqa: B023

        for text, (in_blank, in_label) in beam.items():
            total = np.logaddexp(in_blank, in_label)
            add(text, total + frame[blank], -math.inf)
            if text:
                add(text, -math.inf, in_label + frame[text[-1]])
            for label in range(blank):
                add((*text, label), -math.inf, (in_blank if text and text[-1] == label else total) + frame[label])
        ranked = sorted(following.items(), key=lambda item: -np.logaddexp(*item[1]))
        beam = dict(ranked[:width])
    return {text: float(np.logaddexp(*parts)) for text, parts in beam.items()}


@pytest.mark.parametrize('width', [1, 2, 7, 50])
@pytest.mark.parametrize('seed', range(4))
def test_the_beam_is_that_of_the_plain_search(seed: int, width: int) -> None:
    logits = noisy_logits(40, 5, seed)
    expected = plain_search(logits, width)
    found = prefix_beam_search(logits, SearchOptions(width), count=width)
    assert {tuple(each.labels): each.score for each in found} == pytest.approx(expected, abs=1e-9)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


def test_a_long_utterance_does_not_keep_all_it_has_seen() -> None:
    logits = noisy_logits(1500, 28, 5, sharpness=1.0)
    found = prefix_beam_search(logits, SearchOptions(8), count=8)
    assert [tuple(each.labels) for each in found] == list(plain_search(logits, 8))


def test_many_labels() -> None:
    logits = noisy_logits(10, 5000, 6, sharpness=4.0)
    (found,) = prefix_beam_search(logits, SearchOptions(20))
    assert tuple(found.labels) == next(iter(plain_search(logits, 20)))


def test_cutoffs_look_at_the_most_likely_labels_only() -> None:
    logits = np.log(np.array([[0.5, 0.3, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4]]))
    texts = {tuple(each.labels) for each in prefix_beam_search(logits, SearchOptions(100), count=100)}
    assert {label for text in texts for label in text} == {0, 1, 2}
    for options in (SearchOptions(100, cutoff_top_n=1), SearchOptions(100, cutoff_prob=0.4)):
        # Label 0 in the first frame, nothing but the blank in the second; the blank is possible in the first too.
        found = prefix_beam_search(logits, options, count=100)
        assert {tuple(each.labels) for each in found} == {(), (0,)}
    options = SearchOptions(100, cutoff_prob=0.75)  # 0.5 + 0.3; 0.4 + 0.3 + 0.2
    texts = {tuple(each.labels) for each in prefix_beam_search(logits, options, count=100)}
    assert texts == {(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)}


def test_no_frames() -> None:
    (found,) = prefix_beam_search(np.zeros((0, 4)), SearchOptions(10))
    assert (found.labels, found.score) == ([], 0.0)


def test_probabilities_of_zero_are_no_reason_to_fail() -> None:
    logits = np.full((5, 4), -np.inf)
    logits[[0, 1, 2, 3, 4], [0, 3, 0, 1, 1]] = 0.0
    (found,) = prefix_beam_search(logits, SearchOptions(10))
    assert found.labels == [0, 0, 1]


def test_a_tree_keeps_what_leads_to_its_nodes() -> None:
    tree = PrefixTree(labels=3, start=0)
    (a,) = tree.add(np.array([ROOT]), np.array([1]), np.array([10]))
    ab, ac = tree.add(np.array([a, a]), np.array([2, 0]), np.array([20, 30]))
    tree.contexts[ab] = 7
    assert tree.labels(int(ab)) == [1, 2]
    assert (tree.unit(int(ab)), tree.unit(ROOT)) == ([1, 2], [])
    assert tree.contexts[ac] == 0
    (kept,) = tree.keep(np.array([ab]))
    assert tree.count == 3
    assert tree.labels(int(kept)) == [1, 2]
    assert (tree.states[kept], tree.contexts[kept]) == (20, 7)
    (parent,) = tree.parents(np.array([kept]))
    assert tree.children(np.array([parent, parent]), np.array([2, 0])).tolist() == [kept, -1]
    assert ac == 3  # what was forgotten gets a new number when it comes again
    assert tree.add(np.array([parent]), np.array([0]), np.array([30])).tolist() == [3]


def test_a_lexicon_of_words() -> None:
    space = 3
    lexicon = Lexicon.of_words([[0, 1], [0, 2, 1], []], space, n_labels=4)
    assert lexicon.arcs == 6

    def allowed(labels: list[int]) -> bool:
        state = np.array([lexicon.start])
        for label in labels:
            state = lexicon.follow(state, np.array([label]))
            if state[0] < 0:
                return False
        return True

    assert allowed([0, 1, space, 0, 2, 1, space])
    assert not any(allowed(text) for text in ([space], [1], [0, space], [0, 1, space, space], [0, 1, 2]))
