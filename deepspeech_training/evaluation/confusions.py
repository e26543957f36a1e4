"""Which words are taken for which."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from deepspeech_training.text.edits import DELETION, INSERTION, SUBSTITUTION, Edit

Words = TypeVar('Words', str, tuple[str, str])

MOST_KEPT = 100_000
"""Different pairs of words, or words, that are counted at a time."""


class Confusions:
    """Counts of substitutions, deletions and insertions by their words.

    Exact up to `MOST_KEPT` different ones of a kind. Beyond, the rarest are forgotten whenever there are twice as many,
    so that memory does not grow with the number of utterances.
    """

    def __init__(self) -> None:
        self.substitutions: Counter[tuple[str, str]] = Counter()  # what was said, what was heard
        self.deletions: Counter[str] = Counter()
        self.insertions: Counter[str] = Counter()

    def add(self, edits: Iterable[Edit]) -> None:
        """The edits of one utterance."""
        for edit in edits:
            if edit.kind == SUBSTITUTION:
                self.substitutions[edit.said, edit.heard] += 1
            elif edit.kind == DELETION:
                self.deletions[edit.said] += 1
            elif edit.kind == INSERTION:
                self.insertions[edit.heard] += 1
        self._forget()

    def add_all(self, other: Confusions) -> None:
        """What another set had."""
        self.substitutions.update(other.substitutions)
        self.deletions.update(other.deletions)
        self.insertions.update(other.insertions)
        self._forget()

    def _forget(self) -> None:
        if len(self.substitutions) > 2 * MOST_KEPT:
            self.substitutions = Counter(dict(most_frequent(self.substitutions, MOST_KEPT)))
        if len(self.deletions) > 2 * MOST_KEPT:
            self.deletions = Counter(dict(most_frequent(self.deletions, MOST_KEPT)))
        if len(self.insertions) > 2 * MOST_KEPT:
            self.insertions = Counter(dict(most_frequent(self.insertions, MOST_KEPT)))


def most_frequent(counts: Counter[Words], number: int) -> list[tuple[Words, int]]:
    """The `number` with the greatest counts, in the order of the alphabet where these are equal."""
    return heapq.nsmallest(number, counts.items(), key=lambda item: (-item[1], item[0]))
