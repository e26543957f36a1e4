"""Which neighbours of an order make a batch, and which batch is the largest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from deepspeech_training.config import DataConfig

BUCKET_PADDING = 0.05
"""Share of a batch's frames that may be padding with `DataConfig.bucket_batches`, and so the most in all of them."""


@dataclass(frozen=True)
class EpochBatches:
    """What an epoch takes: `rows`, int32 `[count]`, in batches of `sizes`, int64 `[batches]`, one after another."""

    rows: npt.NDArray[np.int32]
    sizes: npt.NDArray[np.int64]

    @cached_property
    def ends(self) -> npt.NDArray[np.int64]:
        """How many rows are done with each batch: int64 `[batches]`."""
        return np.cumsum(self.sizes)

    def begun(self, rows: int) -> int:
        """The number of the batch (from 0) that comes next, or is under way, when so many `rows` are done."""
        return int(np.searchsorted(self.ends, rows, side='right'))

    def rows_after(self, batches: int) -> int:
        """How many rows are done with the first `batches`, or with all where there are fewer."""
        return int(self.ends[min(batches, len(self.ends)) - 1]) if batches and self.ends.size else 0

    def parts(self, most: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Each batch in parts of `most` rows, of which the last can have fewer.

        Returns the place in `rows` of each row of a part, int64 `[parts, most]`, -1 where it has none, and how many
        parts each batch has, int64 `[batches]`.
        """
        counts = -(-self.sizes // most)
        numbers = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # in each batch from 0
        first = np.repeat(self.ends - self.sizes, counts) + most * numbers
        places = first[:, None] + np.arange(most)
        return np.where(places < np.repeat(self.ends, counts)[:, None], places, -1), counts

    def after(self, rows: int) -> EpochBatches:
        """What is left when `rows` are done; where these end inside of a batch, first the rest of it."""
        begun = self.begun(rows)
        sizes = self.sizes[begun:].copy()
        if sizes.size:
            sizes[0] = self.rows_after(begun + 1) - rows
        return EpochBatches(self.rows[rows:], sizes)

    def largest(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """The rows of the batch with the most frames, padding included, from those of each utterance by position."""
        if not self.sizes.size:
            return self.rows
        starts = self.ends - self.sizes
        number = int((np.maximum.reduceat(frames[self.rows], starts) * self.sizes).argmax())
        return self.rows[starts[number] :][: self.sizes[number]]


def equal_sizes(count: int, size: int) -> npt.NDArray[np.int64]:
    """Batches of `size` rows from `count`, the last with what is left: int64 `[batches]`."""
    batches, rest = divmod(count, size)
    return np.array([size] * batches + [rest] * (rest > 0), np.int64)


def cut_batches(frames: npt.NDArray[np.int64], data: DataConfig) -> npt.NDArray[np.int64]:
    """How many neighbours make each batch, of utterances with `frames` `[count]` feature frames: int64 `[batches]`.

    A batch has `data.train_batch_size` of them at most. With `data.train_batch_frames` it ends before its rows,
    padded to the longest, would have more frames together; an utterance that alone has more is a batch of its own. With
    `data.bucket_batches` it ends before more than `BUCKET_PADDING` of its frames would be padding.
    """
    if not (data.train_batch_frames or data.bucket_batches):
        return equal_sizes(len(frames), data.train_batch_size)
    most_frames = data.train_batch_frames or np.inf
    most_padding = BUCKET_PADDING if data.bucket_batches else 1.0
    sizes: list[int] = []
    count, total, longest = 0, 0, 0
    for length in frames.tolist():
        padded = (count + 1) * max(longest, length)
        padding = padded - total - length
        full = count == data.train_batch_size or padded > most_frames or padding > most_padding * padded
        if count and full:
            sizes.append(count)
            count, total, longest = 0, 0, 0
        count, total, longest = count + 1, total + length, max(longest, length)
    return np.array([*sizes, count] if count else sizes, np.int64)
