"""The most likely path of a text, against all paths tried out."""

from __future__ import annotations

import itertools
from operator import itemgetter

import numpy as np
import pytest

from deepspeech_training.text.alignment import align

BLANK = 2


def spans_by_trying(log_probabilities: np.ndarray, ids: list[int]) -> list[tuple[int, int]]:
    """Of the best of all paths that spell `ids`."""
    best, spans = -np.inf, []
    for path in itertools.product(range(BLANK + 1), repeat=len(log_probabilities)):
        runs = itertools.groupby(enumerate(path), key=itemgetter(1))
        spoken = [(label, [place for place, _ in run]) for label, run in runs if label != BLANK]
        score = sum(log_probabilities[frame, label] for frame, label in enumerate(path))
        if [label for label, _ in spoken] == ids and score > best:
            best, spans = score, [(frames[0], frames[-1]) for _, frames in spoken]
    return spans


@pytest.mark.parametrize('seed', range(12))
@pytest.mark.parametrize('ids', [[0], [0, 1], [1, 1], [0, 1, 0], [0, 0, 1]])
def test_it_is_the_best_of_all(ids: list[int], seed: int) -> None:
    logits = np.random.default_rng(seed).normal(size=(6, 3)).astype(np.float32)
    assert align(logits, ids, BLANK) == spans_by_trying(logits, ids)


def test_no_text_has_no_frames() -> None:
    assert align(np.zeros([0, 3], np.float32), [], BLANK) == []
    assert align(np.zeros([4, 3], np.float32), [], BLANK) == []


@pytest.mark.parametrize(('frames', 'ids'), [(0, [0]), (1, [0, 1]), (2, [0, 0])])
def test_too_few_frames(frames: int, ids: list[int]) -> None:
    with pytest.raises(ValueError, match=f'{frames} frames are too few for {len(ids)} labels'):
        align(np.zeros([frames, 3], np.float32), ids, BLANK)
    assert align(np.zeros([frames + 1, 3], np.float32), ids, BLANK)
