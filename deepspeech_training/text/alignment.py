"""Which frames a text was heard in: its most likely CTC path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def align(log_probabilities: npt.NDArray[np.float32], ids: Sequence[int], blank: int) -> list[tuple[int, int]]:
    """The first and last frame of each of `ids` on the most likely path of those that spell them.

    `log_probabilities`: `[frames, n_output]`. The Viterbi algorithm over the labels with blanks before, between and
    behind them, of which a path may leave out those between different labels (Graves et al. 2006, section 4.1).

    Raises `ValueError` when there are too few frames for `ids`.
    """
    if not ids:
        return []
    path = _best_path(*_best_scores(log_probabilities, _with_blanks(ids, blank), blank))
    spans = []
    for label in range(len(ids)):
        frames = np.flatnonzero(path == 2 * label + 1)
        spans.append((int(frames[0]), int(frames[-1])))
    return spans


def _with_blanks(ids: Sequence[int], blank: int) -> npt.NDArray[np.intp]:
    states = np.full(2 * len(ids) + 1, blank, np.intp)
    states[1::2] = ids
    return states


def _best_scores(
    log_probabilities: npt.NDArray[np.float32], states: npt.NDArray[np.intp], blank: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int8]]:
    """Scores of the states `[states]` in the last frame, and how many states each came ahead, `[frames, states]`."""
    skips = np.zeros(len(states), bool)
    skips[2:] = (states[2:] != blank) & (states[2:] != states[:-2])
    emitted = log_probabilities[:, states].astype(np.float64)
    steps = np.zeros(emitted.shape, np.int8)
    scores = np.full(len(states), -np.inf)
    scores[:2] = emitted[0, :2] if len(emitted) else -np.inf
    candidates = np.full([3, len(states)], -np.inf)
    for frame in range(1, len(emitted)):
        candidates[0] = scores
        candidates[1, 1:] = scores[:-1]
        candidates[2, 2:] = np.where(skips[2:], scores[:-2], -np.inf)
        steps[frame] = np.argmax(candidates, axis=0)
        scores = candidates.max(axis=0) + emitted[frame]
    return scores, steps


def _best_path(scores: npt.NDArray[Any], steps: npt.NDArray[np.int8]) -> npt.NDArray[np.intp]:
    """The state of each frame on the best path that ends in the last label or the blank behind it."""
    state = len(scores) - 1 if scores[-1] >= scores[-2] else len(scores) - 2
    if not np.isfinite(scores[state]):
        raise ValueError(f'{len(steps)} frames are too few for {len(scores) // 2} labels')
    path = np.empty(len(steps), np.intp)
    for frame in range(len(steps) - 1, -1, -1):
        path[frame] = state
        state -= int(steps[frame, state])
    return path
