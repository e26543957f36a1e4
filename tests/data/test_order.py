"""Which sample comes when: nothing is lost or repeated, whatever the numbers."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepspeech_training.config import DataConfig
from deepspeech_training.data.manifest import Sample
from deepspeech_training.data.order import epoch_order, sort_samples

SHUFFLED = DataConfig(shuffle_batches=True, shuffle_start=0)


def samples(*sizes: int) -> list[Sample]:
    return [Sample(f'{number}.wav', size, 'one', 'a.csv', number + 2) for number, size in enumerate(sizes)]


def names(ordered: list[Sample]) -> str:
    return ' '.join(sample.path.removesuffix('.wav') for sample in ordered)


@pytest.mark.parametrize(
    ('reverse', 'limit', 'expected'),
    [
        (False, 0, '3 1 4 0 2'),
        (True, 0, '0 2 1 4 3'),  # equal sizes in the order of the file, as in DeepSpeech
        (False, 2, '3 1'),
        (True, 2, '0 2'),
        (False, 9, '3 1 4 0 2'),
    ],
)
def test_sorted_by_size(reverse: bool, limit: int, expected: str) -> None:
    assert names(sort_samples(samples(30, 20, 30, 10, 20), reverse, limit)) == expected


def test_sorting_leaves_its_input_alone() -> None:
    given_samples = samples(2, 1)

    sort_samples(given_samples, True, 1)

    assert given_samples == samples(2, 1)
    assert sort_samples([], False, 0) == []


def cut(order: np.ndarray, batch_size: int) -> list[tuple[int, ...]]:
    """The order as the pipeline cuts it into batches."""
    return [tuple(order[start : start + batch_size].tolist()) for start in range(0, len(order), batch_size)]


@pytest.mark.parametrize(
    ('data', 'epoch'),
    [
        (DataConfig(), 0),
        (DataConfig(), 7),
        (DataConfig(shuffle_batches=True), 0),
        (DataConfig(shuffle_batches=True, shuffle_start=3), 2),
        (DataConfig(shuffle_batches=True, shuffle_start=0, shuffle_buffer=1), 5),
    ],
)
def test_ascending_where_nothing_is_shuffled(data: DataConfig, epoch: int) -> None:
    order = epoch_order(16, 4, epoch, data, seed=1)

    assert order.dtype == np.int32
    np.testing.assert_array_equal(order, np.arange(16))


@pytest.mark.parametrize('epoch', [1, 2, 9])
def test_shuffled_from_the_second_epoch_by_default(epoch: int) -> None:
    order = epoch_order(1000, 4, epoch, DataConfig(shuffle_batches=True), seed=1)

    assert (order != np.arange(1000)).any()


@settings(deadline=None)
@given(
    count=st.integers(0, 200),
    batch_size=st.integers(1, 40),
    window=st.integers(1, 60),
    epoch=st.integers(0, 5),
    seed=st.integers(-(2**31), 2**31),
)
def test_every_sample_once_in_batches_of_neighbours(
    count: int, batch_size: int, window: int, epoch: int, seed: int
) -> None:
    data = DataConfig(shuffle_batches=True, shuffle_start=0, shuffle_buffer=window)

    order = epoch_order(count, batch_size, epoch, data, seed)

    assert order.dtype == np.int32
    np.testing.assert_array_equal(np.sort(order), np.arange(count))
    *full, last = cut(order, batch_size) or [()]
    smaller = set(last) if count % batch_size else set()
    for batch in [*full, last]:
        # Neighbours in the list without the smaller batch, which may lie between them.
        between = set(range(min(batch, default=0), max(batch, default=-1) + 1)) - set(batch)
        assert between in (set(), smaller)
        assert list(batch) == sorted(batch)


def test_the_same_seed_and_epoch_give_the_same_order() -> None:
    def order(epoch: int, seed: int) -> list[int]:
        return epoch_order(101, 4, epoch, SHUFFLED, seed).tolist()

    assert order(1, 7) == order(1, 7)
    assert len({tuple(order(epoch, seed)) for epoch in range(5) for seed in range(5)}) == 25


def test_the_smaller_batch_moves() -> None:
    """Else the longest utterances would always be in it."""
    ends = {tuple(epoch_order(11, 4, epoch, SHUFFLED, seed=1)[-3:].tolist()) for epoch in range(50)}

    assert ends == {(0, 1, 2), (4, 5, 6), (8, 9, 10)}


def test_every_batch_comes_in_every_place() -> None:
    places = np.zeros([5, 5])
    for epoch in range(500):
        for place, batch in enumerate(cut(epoch_order(10, 2, epoch, SHUFFLED, seed=3), 2)):
            places[batch[0] // 2, place] += 1

    # 100 each are expected, with a standard deviation of 9.
    assert places.min() > 55
    assert places.max() < 145


@pytest.mark.parametrize('window', [1, 2, 10])
def test_window_limits_how_far_a_batch_moves_ahead(window: int) -> None:
    """As with a shuffle buffer: a batch cannot come before it has entered the window."""
    data = DataConfig(shuffle_batches=True, shuffle_start=0, shuffle_buffer=window)

    order = epoch_order(200, 1, 0, data, seed=5)

    ahead = order - np.arange(200)
    assert ahead.max() == window - 1
    assert ahead.min() < -window or window == 1


def test_a_million_samples_are_ordered_quickly() -> None:
    start = time.process_time()

    order = epoch_order(10**6, 1, 1, DataConfig(shuffle_batches=True), seed=1)

    assert time.process_time() - start < 10  # 0.5 s where it was written
    assert (np.bincount(order) == 1).all()
