"""Batches of different sizes are dealt out whole; a probe leaves nothing behind."""

from __future__ import annotations

import numpy as np
import pytest

from deepspeech_training.config import DataConfig
from deepspeech_training.data.order import epoch_batches
from deepspeech_training.data.turns import places_of
from deepspeech_training.parallel.strategy import StepResult

from .conftest import Case
from .test_faults import assert_same
from .toy import ToyData, ToyJob, counted

SETTINGS = [
    DataConfig(train_batch_size=3),
    DataConfig(train_batch_size=4, bucket_batches=True, shuffle_batches=True, shuffle_start=0),
    DataConfig(train_batch_size=5, train_batch_frames=300, shuffle_batches=True, shuffle_start=0),
    DataConfig(train_batch_size=5, bucket_batches=True, train_batch_frames=300),
]


@pytest.mark.parametrize('data', SETTINGS, ids=['equal', 'buckets', 'frames', 'both'])
@pytest.mark.parametrize(('done', 'weight'), [(0, 1.0), (7, 1.0), (7, 1.5)])
def test_every_sample_once_an_epoch_and_all_ranks_in_step(
    case: Case, data: DataConfig, done: int, weight: float
) -> None:
    """Also in what is left of an epoch that was interrupted, and of those that are chosen of sets with weights."""
    strategy = case.create()
    for count in (0, 1, 20, 41):
        rows, turns = places_of((weight,), np.zeros(count, np.int64))
        frames = np.sort(np.random.default_rng(count).integers(20, 200, count))[rows]
        for epoch in range(2):
            batches = epoch_batches(frames, data, epoch, 1, turns).after(min(done, count))
            expected = [part.tolist() for part in np.split(batches.rows, batches.ends)[: len(batches.sizes)]]
            for training in (True, False):
                shards = strategy.all_gather(strategy.shard(batches.rows, batches.sizes, training=training))
                together = strategy.batches_a_step if training else strategy.towers
                steps = -(-len(expected) // (together * strategy.world_size))
                assert {shard.steps for shard in shards} == {steps}
                assert {shard.batches + shard.fillers for shard in shards} == {steps * together}
                dealt: dict[int, list[int]] = {}
                for shard in shards:
                    parts = np.split(shard.rows, np.cumsum(shard.sizes))[: shard.batches]
                    dealt |= {int(n): part.tolist() for n, part in zip(shard.numbers, parts, strict=False)}
                assert [dealt[number] for number in sorted(dealt)] == expected
    strategy.stop()


@pytest.mark.parametrize('accumulate_steps', [1, 2])
def test_a_probe_leaves_nothing_behind(case: Case, accumulate_steps: int) -> None:
    def run(*, probe: bool) -> tuple[dict[str, np.ndarray], list[StepResult]]:
        strategy = case.create(accumulate_steps=accumulate_steps, grad_clip_norm=1.0)
        with ToyJob(strategy, ToyData.random(11), 2) as job:
            first = job.state()
            if probe:
                strategy.probe(job.session, job.training)
                assert_same(job.state(), first)
            job.start()
            results = job.rest_of_epoch()
            return job.state(), results

    (state, results), (expected, others) = run(probe=True), run(probe=False)
    assert_same(state, expected)
    assert [(r.loss_sum, r.gradient_norm, r.measures.keys()) for r in results] == [
        (r.loss_sum, r.gradient_norm, r.measures.keys()) for r in others
    ]
    assert counted(results) == counted(others)
