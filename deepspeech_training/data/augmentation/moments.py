"""How far training has come when each utterance is used."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deepspeech_training.config import DataConfig
from deepspeech_training.data.feature_cache import epoch_of_random_numbers
from deepspeech_training.data.order import epoch_batches
from deepspeech_training.data.turns import Turns


@dataclass(frozen=True)
class Moments:
    """Of one epoch, for the utterances at the positions from `start` on."""

    epoch: int  # whose random numbers are used
    clocks: npt.NDArray[np.float64]  # [count]: how much of the training is over, from 0 to 1
    start: int = 0

    def clocks_at(self, positions: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
        """`[n]`, of the utterances at `positions` `[n]`."""
        clocks: npt.NDArray[np.float64] = self.clocks[positions - self.start]
        return clocks


def moments_of(
    epoch: int,
    epochs: int,
    frames: npt.NDArray[np.int64],
    data: DataConfig,
    seed: int,
    start: int = 0,
    turns: Turns | None = None,
) -> Moments:
    """Those of epoch `epoch` of `epochs`, of utterances with `frames` `[count]` feature frames; with a feature cache,
    those of the epoch whose features it keeps.

    They follow from the order of the epoch, not from who takes part of it, nor from what of it is still to be done. An
    utterance whose turn (`turns`) does not come in the epoch whose features are kept has the moment at its beginning.
    """
    drawn = epoch_of_random_numbers(epoch, data)
    rows = epoch_batches(frames, data, drawn, seed, turns).rows
    clocks = np.zeros(len(frames))
    clocks[rows] = np.arange(len(rows)) / max(len(rows), 1)
    return Moments(drawn, (drawn + clocks) / max(epochs, 1), start)
