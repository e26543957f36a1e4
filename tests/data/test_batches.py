"""Where batches end, and which rows they have in each epoch."""

from __future__ import annotations

import csv
import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepspeech_training.config import DataConfig, FeatureConfig
from deepspeech_training.data.batches import BUCKET_PADDING, EpochBatches, cut_batches, equal_sizes
from deepspeech_training.data.checks import check_data
from deepspeech_training.data.order import epoch_batches, frames_of
from deepspeech_training.text.alphabet import Alphabet

FRAMES = st.lists(st.integers(1, 500), max_size=80)


def cut(frames: list[int], **settings: int | bool) -> list[int]:
    data = DataConfig(**settings)  # type: ignore[arg-type]
    return cut_batches(np.array(frames, np.int64), data).tolist()


def padding_of(frames: np.ndarray, batches: EpochBatches) -> float:
    """The share of all frames that is padding."""
    padded, start = 0, 0
    for size in batches.sizes.tolist():
        padded += size * int(frames[batches.rows[start : start + size]].max())
        start += size
    return 1 - float(frames.sum()) / padded


@pytest.mark.parametrize(
    ('frames', 'most', 'count', 'expected'),
    [
        ([], 100, 4, []),
        ([10, 20, 25], 100, 4, [3]),  # 3 x 25
        ([10, 20, 50, 50], 100, 4, [2, 2]),  # 3 x 50 would be too many
        ([10, 10, 10, 10, 10], 100, 4, [4, 1]),  # the most utterances
        ([10, 300, 20], 100, 4, [1, 1, 1]),  # longer than a batch may be: alone
        ([50, 50, 51], 100, 4, [2, 1]),  # exactly as many as allowed
        ([60, 10, 10, 10], 100, 4, [1, 3]),  # descending: the longest comes first
    ],
)
def test_batches_end_before_they_have_too_many_frames(
    frames: list[int], most: int, count: int, expected: list[int]
) -> None:
    assert cut(frames, train_batch_frames=most, train_batch_size=count) == expected


def test_buckets_end_before_they_have_too_much_padding() -> None:
    assert cut([90, 100, 100, 100], bucket_batches=True, train_batch_size=4) == [4]  # 10 of 400
    assert cut([80, 100, 100, 100], bucket_batches=True, train_batch_size=4) == [1, 3]  # 20 of 200, at the second
    assert cut([100] * 9, bucket_batches=True, train_batch_size=4) == [4, 4, 1]


def test_without_these_flags_all_batches_are_equal() -> None:
    assert cut([1, 500, 3, 4, 5], train_batch_size=2) == [2, 2, 1]


@settings(deadline=None)
@given(
    lengths=FRAMES,
    buckets=st.booleans(),
    most=st.integers(0, 2000),
    count=st.integers(2, 20),
    shuffle=st.booleans(),
    descending=st.booleans(),
    epoch=st.integers(0, 3),
)
def test_every_sample_once_and_no_batch_too_large(
    lengths: list[int], buckets: bool, most: int, count: int, shuffle: bool, descending: bool, epoch: int
) -> None:
    data = DataConfig(train_batch_size=count, bucket_batches=buckets, train_batch_frames=most, shuffle_batches=shuffle)
    frames = np.array(sorted(lengths, reverse=descending) if buckets else lengths, np.int64)
    batches = epoch_batches(frames, data, epoch, seed=1)
    assert batches.rows.dtype == np.int32
    assert sorted(batches.rows.tolist()) == list(range(len(lengths)))
    assert batches.sizes.sum() == len(lengths)
    assert len(batches.sizes) == len(epoch_batches(frames, data, epoch + 1, seed=1).sizes)
    for number, size in enumerate(batches.sizes.tolist()):
        first = batches.rows_after(number)
        of_batch = frames[batches.rows[first : first + size]]
        assert 1 <= size <= count
        assert size == 1 or not most or size * of_batch.max() <= most
        if buckets:
            padded = size * of_batch.max()
            assert padded - of_batch.sum() <= BUCKET_PADDING * padded


def test_shuffling_changes_the_places_of_batches_and_their_members_but_not_their_shapes() -> None:
    frames = np.repeat([10, 20, 30, 40, 50], 8).astype(np.int64)
    data = DataConfig(train_batch_size=3, bucket_batches=True, shuffle_batches=True, shuffle_start=0)

    def shapes_and_members(epoch: int) -> tuple[list[tuple[int, int]], set[frozenset[int]]]:
        batches = epoch_batches(frames, data, epoch, seed=1)
        parts = np.split(batches.rows, batches.ends[:-1])
        return [(len(part), int(frames[part].max())) for part in parts], {frozenset(part.tolist()) for part in parts}

    (first, members), (second, others) = shapes_and_members(0), shapes_and_members(1)
    assert first != second
    assert sorted(first) == sorted(second)
    assert len(members & others) < len(members) / 2
    assert shapes_and_members(1) == (second, others)


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=10))
def test_what_is_left_after_any_number_of_rows(sizes: list[int]) -> None:
    rows = np.arange(sum(sizes), dtype=np.int32)
    batches = EpochBatches(rows, np.array(sizes, np.int64))
    for done in range(sum(sizes) + 1):
        rest = batches.after(done)
        assert rest.rows.tolist() == list(range(done, sum(sizes)))
        assert rest.sizes.sum() == len(rest.rows)
        assert (rest.sizes > 0).all()
        begun = batches.begun(done)
        assert batches.rows_after(begun) <= done < batches.rows_after(begun + 1) or done == sum(sizes)
        assert rest.sizes[1:].tolist() == sizes[begun + 1 :]
    assert batches.rows_after(len(sizes) + 7) == sum(sizes)
    assert batches.rows_after(0) == 0


def test_the_largest_batch_is_not_always_that_with_the_longest_utterance() -> None:
    frames = np.array([10, 10, 10, 25], np.int64)
    assert EpochBatches(np.arange(4, dtype=np.int32), np.array([3, 1])).largest(frames).tolist() == [0, 1, 2]
    assert EpochBatches(np.arange(0, dtype=np.int32), equal_sizes(0, 3)).largest(frames[:0]).size == 0


def test_a_million_samples_are_cut_quickly() -> None:
    frames = np.sort(np.random.default_rng(0).integers(50, 1500, 10**6))
    data = DataConfig(
        train_batch_size=64, bucket_batches=True, train_batch_frames=30000, shuffle_batches=True, shuffle_start=0
    )
    start = time.process_time()
    batches = epoch_batches(frames, data, 3, seed=1)
    assert time.process_time() - start < 20  # 1.5 s where it was written
    assert (np.bincount(batches.rows) == 1).all()
    assert padding_of(frames, batches) < 0.001


def test_durations_count_not_file_sizes(tmp_path: Path) -> None:
    """Noise takes more bytes in FLAC than silence does."""
    soundfile = pytest.importorskip('soundfile')
    random = np.random.default_rng(0)
    rows = []
    for name, seconds, loudness in (('long', 1.0, 0.0), ('short', 0.5, 0.5), ('longest', 1.5, 0.0)):
        soundfile.write(tmp_path / f'{name}.flac', loudness * random.uniform(-1, 1, int(16000 * seconds)), 16000)
        rows.append((f'{name}.flac', (tmp_path / f'{name}.flac').stat().st_size, 'a'))
    with (tmp_path / 'a.csv').open('w', newline='') as file:
        csv.writer(file).writerows([('wav_filename', 'wav_filesize', 'transcript'), *rows])

    def order(**settings: bool) -> list[str]:
        data = DataConfig(train_files=(str(tmp_path / 'a.csv'),), dev_files=(str(tmp_path / 'a.csv'),), **settings)  # type: ignore[arg-type]
        sets = check_data(data, FeatureConfig(), Alphabet(['a']), save_dir=str(tmp_path), show_progressbar=False)
        assert [os.path.basename(s.path) for s in next(iter(sets.dev.values()))][-1] == 'short.flac'
        return [os.path.basename(sample.path).removesuffix('.flac') for sample in sets.train]

    assert order() == ['long', 'longest', 'short']
    assert order(bucket_batches=True) == ['short', 'long', 'longest']
    assert order(bucket_batches=True, reverse_train=True) == ['longest', 'long', 'short']
    assert order(bucket_batches=True) == ['short', 'long', 'longest']  # from what is remembered of the files


@pytest.mark.skipif('DEEPSPEECH_DATA' not in os.environ, reason='DEEPSPEECH_DATA does not say where the speech is')
@pytest.mark.parametrize('count', [4, 8, 16, 32])
def test_little_padding_in_real_speech(tmp_path: Path, count: int) -> None:
    folder = Path(os.environ['DEEPSPEECH_DATA']) / 'prompts-en'
    data = DataConfig(train_files=(str(folder / 'train.csv'),), bucket_batches=True, train_batch_size=count)
    alphabet = Alphabet.from_file(str(folder / 'alphabet.txt'))
    sets = check_data(data, FeatureConfig(), alphabet, save_dir=str(tmp_path), show_progressbar=False)
    frames = frames_of(sets.train)
    assert padding_of(frames, epoch_batches(frames, data, 0, seed=1)) < 0.05
