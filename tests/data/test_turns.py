"""How often an epoch takes each sample of sets with weights."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepspeech_training.config import DataConfig
from deepspeech_training.data.augmentation.moments import moments_of
from deepspeech_training.data.order import epoch_batches
from deepspeech_training.data.turns import places_of

CUTS = [
    DataConfig(train_batch_size=3),
    DataConfig(train_batch_size=4, shuffle_batches=True, shuffle_start=0),
    DataConfig(train_batch_size=4, bucket_batches=True, shuffle_batches=True, shuffle_start=0),
    DataConfig(train_batch_size=4, train_batch_frames=250),
]


@settings(max_examples=100, deadline=None)
@given(
    sets=st.lists(st.integers(0, 2), max_size=40),
    weights=st.tuples(*[st.floats(0.05, 4.0) for _ in range(3)]),
    seed=st.integers(0, 2**40),
)
def test_each_sample_as_often_as_its_weight_says(
    sets: list[int], weights: tuple[float, float, float], seed: int
) -> None:
    rows, turns = places_of(weights, np.array(sets, np.int64))
    epochs = 12
    taken: Counter[int] = Counter()
    sizes = set()
    for epoch in range(epochs):
        positions = turns.of(epoch, seed)
        assert (np.diff(positions) > 0).all()
        sizes.add(len(positions))
        once = Counter(rows[positions].tolist())
        for sample, number in enumerate(sets):
            assert int(weights[number]) <= once[sample] <= int(np.ceil(weights[number]))
        taken += once
    assert len(sizes) == 1  # as many in each epoch
    for number, weight in enumerate(weights):
        members = [sample for sample, other in enumerate(sets) if other == number]
        counts = [taken[sample] for sample in members]
        if members:
            assert max(counts) - min(counts) <= 1
            fraction = weight % 1
            extra = max(1, int(len(members) * fraction + 0.5)) if fraction else 0
            assert sum(counts) == epochs * (int(weight) * len(members) + extra)


def test_turns_follow_from_the_seed() -> None:
    _, turns = places_of((0.5,), np.zeros(50, np.int64))
    assert turns.of(3, seed=1).tolist() == turns.of(3, seed=1).tolist()
    assert turns.of(3, seed=1).tolist() != turns.of(3, seed=2).tolist()
    assert not set(turns.of(0, seed=1).tolist()) & set(turns.of(1, seed=1).tolist())
    assert turns.of(0, seed=1).tolist() == turns.of(2, seed=1).tolist()


@pytest.mark.parametrize('data', CUTS)
@pytest.mark.parametrize('epoch', [0, 3])
def test_batches_have_those_whose_turn_it_is(data: DataConfig, epoch: int) -> None:
    rows, turns = places_of((2.0, 0.4, 1.5), np.arange(30) % 3)
    frames = np.sort(np.random.default_rng(0).integers(10, 200, 30))[rows]
    batches = epoch_batches(frames, data, epoch, 7, turns)
    assert sorted(batches.rows.tolist()) == turns.of(epoch, 7).tolist()
    assert batches.sizes.sum() == len(batches.rows) == 20 + 4 + 15
    moments = moments_of(epoch, 5, frames, data, 7, turns=turns)
    clocks = moments.clocks_at(batches.rows)
    np.testing.assert_allclose(clocks, (epoch + np.arange(39) / 39) / 5)


def test_whole_weights_need_no_turns() -> None:
    rows, turns = places_of((1.0, 3.0), np.array([0, 1, 0]))
    assert rows.tolist() == [0, 1, 1, 1, 2]
    assert turns.shares == ()
    assert turns.of(4, 0).tolist() == [0, 1, 2, 3, 4]
