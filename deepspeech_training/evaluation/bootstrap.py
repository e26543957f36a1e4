"""How far error rates would be off for other utterances of the same kind: the bootstrap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Totals = npt.NDArray[np.float64]

REPLICATES = 1000
CONFIDENCE = 0.95
SEED = 4568


@dataclass(frozen=True)
class Interval:
    """Bounds between which the true rate lies with the probability `CONFIDENCE`."""

    low: float
    high: float


class Bootstrap:
    """Totals over utterances, each drawn again `REPLICATES` times.

    An utterance is in each replicate as often as a Poisson variable of mean 1 says, independently of the others
    (Hanley and MacGibbon 2006, "Creating non-parametric bootstrap samples using Poisson frequencies"). So nothing has
    to be kept but the totals of the replicates: memory does not grow with the number of utterances.
    """

    def __init__(self, number: int = 0) -> None:
        """`number`: of the set, so that several have different random numbers."""
        self._number = number
        self.totals: Totals = np.zeros([4, REPLICATES])

    def add(self, line: int, word_distance: int, words: int, char_distance: int, characters: int) -> None:
        """The utterance on this `line` of the set, which decides its random numbers; the order of calls does not."""
        bits = np.random.Philox(key=[SEED, (self._number << 40) + line])
        counts = np.random.Generator(bits).poisson(1.0, REPLICATES)
        self.totals += np.array([word_distance, words, char_distance, characters])[:, np.newaxis] * counts

    def add_all(self, other: Bootstrap) -> None:
        """The utterances of another set."""
        self.totals += other.totals

    def wer(self) -> Interval:
        """Of the word error rate."""
        return _interval(self.totals[0], self.totals[1])

    def cer(self) -> Interval:
        """Of the character error rate."""
        return _interval(self.totals[2], self.totals[3])


def difference(one: Bootstrap, other: Bootstrap) -> Interval:
    """Of the word error rate of `one` less that of `other`, which has the same words on the same lines."""
    return _interval(one.totals[0] - other.totals[0], one.totals[1])


def _interval(distances: Totals, lengths: Totals) -> Interval:
    """Percentiles of the replicates that have an utterance at all; 0 to 0 without any."""
    rates = distances[lengths > 0] / lengths[lengths > 0]
    if not len(rates):
        return Interval(0.0, 0.0)
    low, high = np.quantile(rates, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(low), float(high))
