"""In which order an epoch takes its samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from deepspeech_training.config import DataConfig
from deepspeech_training.data.batches import EpochBatches, cut_batches, equal_sizes
from deepspeech_training.data.manifest import Sample
from deepspeech_training.data.turns import Turns


def sort_samples(samples: Sequence[Sample], reverse: bool, limit: int, *, by_frames: bool = False) -> list[Sample]:
    """Samples by ascending file size, or descending with `reverse`, so that a batch holds utterances of like length.

    Equal sizes stay in the order given, with `reverse` too, as in DeepSpeech. Then `limit` (0: none) keeps that many
    from the start. With `by_frames` the number of feature frames counts, which file sizes do not tell of compressed
    audio.
    """
    return [samples[place] for place in sorted_places(samples, reverse, limit, by_frames=by_frames)]


def sorted_places(samples: Sequence[Sample], reverse: bool, limit: int, *, by_frames: bool = False) -> list[int]:
    """The places in `samples` of what `sort_samples` gives."""
    sizes = [sample.frames if by_frames else sample.size for sample in samples]
    ordered = sorted(range(len(samples)), key=sizes.__getitem__, reverse=reverse)
    return ordered[:limit] if limit else ordered


def frames_of(samples: Sequence[Sample]) -> npt.NDArray[np.int64]:
    """Feature frames of each sample: int64 `[count]`."""
    return np.array([sample.frames for sample in samples], np.int64)


def epoch_batches(
    frames: npt.NDArray[np.int64], data: DataConfig, epoch: int, seed: int, turns: Turns | None = None
) -> EpochBatches:
    """The batches of epoch `epoch` (from 0) of samples with `frames` `[count]` feature frames, by position.

    With `turns`, of those whose turn it is: as if there were no others.
    """
    if turns is None or not turns.shares:
        return _batches_of_all(frames, data, epoch, seed)
    positions = turns.of(epoch, seed)
    batches = _batches_of_all(frames[positions], data, epoch, seed)
    return EpochBatches(positions[batches.rows], batches.sizes)


def _batches_of_all(frames: npt.NDArray[np.int64], data: DataConfig, epoch: int, seed: int) -> EpochBatches:
    """Those of an epoch that takes all samples.

    Every epoch has the same number of batches. Those of `data.bucket_batches` and `data.train_batch_frames` are cut
    once, and shuffled as `epoch_order` does; samples of buckets that have equally many frames change places then, so
    that a batch has the same shape in each epoch but not always the same members.
    """
    count = len(frames)
    if not (data.bucket_batches or data.train_batch_frames):
        rows = epoch_order(count, data.train_batch_size, epoch, data, seed)
        return EpochBatches(rows, equal_sizes(count, data.train_batch_size))
    rows, sizes = np.arange(count, dtype=np.int32), cut_batches(frames, data)
    if not (data.shuffle_batches and epoch >= data.shuffle_start and count):
        return EpochBatches(rows, sizes)
    random = np.random.default_rng([seed & 0xFFFFFFFF, epoch])
    if data.bucket_batches:
        rows = random.permutation(rows)
        places = frames if frames[0] <= frames[-1] else -frames  # in the order of the list
        rows = rows[np.argsort(places[rows], kind='stable')]
    order = _shuffled(len(sizes), data.shuffle_buffer, random)
    parts = np.split(rows, np.cumsum(sizes)[:-1])
    return EpochBatches(np.concatenate([parts[number] for number in order]), sizes[order])


def epoch_order(count: int, batch_size: int, epoch: int, data: DataConfig, seed: int) -> npt.NDArray[np.int32]:
    """The positions 0 to `count` - 1 in the order in which epoch `epoch` (from 0) takes them: int32 `[count]`.

    Ascending, unless `data.shuffle_batches` and `epoch` has reached `data.shuffle_start`. Then the list is cut into
    batches of `batch_size` neighbours - where `count` is no multiple, one smaller batch at a place drawn anew each
    epoch - and the batches are drawn one by one from a window of `data.shuffle_buffer`, as `tf.data`'s `shuffle` does.
    The smaller batch comes last, so that cutting the result into batches of `batch_size` gives these batches. The
    same seed and epoch give the same order.
    """
    if not data.shuffle_batches or epoch < data.shuffle_start:
        return np.arange(count, dtype=np.int32)
    batches, rest = divmod(count, batch_size)
    random = np.random.default_rng([seed & 0xFFFFFFFF, epoch])
    gap = int(random.integers(batches + 1)) * batch_size
    positions = np.arange(count, dtype=np.int32)
    smaller = positions[gap : gap + rest]
    full = np.delete(positions, np.s_[gap : gap + rest]).reshape(batches, batch_size)
    return np.concatenate([full[_shuffled(batches, data.shuffle_buffer, random)].ravel(), smaller])


def _shuffled(count: int, window: int, random: np.random.Generator) -> npt.NDArray[np.int32]:
    """0 to `count` - 1, each drawn from a window; the next number takes its place: int32 `[count]`."""
    if window >= count:
        return random.permutation(count).astype(np.int32)
    draws = random.integers(window, size=count - window).tolist()
    held = list(range(window))
    taken = []
    for following, draw in enumerate(draws, start=window):
        taken.append(held[draw])
        held[draw] = following
    return np.array([*taken, *random.permutation(held)], dtype=np.int32)
