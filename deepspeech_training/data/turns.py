"""Weights of training sets: how often an epoch takes each sample.

A sample of a set with the weight w is in the list of training samples as often as w, rounded up, says. Each of these
places is taken once in an epoch, but for the last one where w is no whole number: of the last places of a set with n
samples, an epoch takes round(n * f), at least one, where f is the fraction of w. They take turns, in an order drawn
from the seed, so that after any number of epochs no place was taken two times more than another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Turns:
    """Which positions of the list of training samples an epoch takes."""

    count: int  # of all positions
    shares: tuple[tuple[float, Positions], ...] = ()  # of each set, the fraction and the positions that take turns

    def of(self, epoch: int, seed: int) -> Positions:
        """The positions of epoch `epoch` (from 0), ascending: int32 `[count]`."""
        taken = np.ones(self.count, bool)
        for number, (share, positions) in enumerate(self.shares):
            many = self._many(share, len(positions))
            order = np.random.default_rng([seed & 0xFFFFFFFF, number, 0x7EA5]).permutation(positions)
            taken[positions] = False
            taken[np.take(order, np.arange(epoch * many, (epoch + 1) * many), mode='wrap')] = True
        return np.flatnonzero(taken).astype(np.int32)

    @staticmethod
    def _many(share: float, count: int) -> int:
        return max(1, math.floor(count * share + 0.5))


def places_of(weights: Sequence[float], sets: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Turns]:
    """The list of training samples, and which of its places an epoch takes.

    `sets`, `[samples]`: the number of the set that each sample is from; `weights`: of each set, above 0. The list, as
    places in `sets`, has a sample's copies one after another.
    """
    copies = np.ceil(np.asarray(weights, np.float64)).astype(np.int64)
    rows = np.repeat(np.arange(len(sets)), copies[sets])
    ends = np.cumsum(copies[sets])
    shares = []
    for number, weight in enumerate(weights):
        last = (ends[sets == number] - 1).astype(np.int32)
        if weight % 1 and last.size:
            shares.append((weight % 1, last))
    return rows, Turns(len(rows), tuple(shares))
