"""Samples that are loaded together, as the arrays that TensorFlow goes on with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepspeech_training.audio.reference import reference_mfccs
from deepspeech_training.config import N_INPUT, FeatureConfig
from deepspeech_training.data.batches import EpochBatches
from deepspeech_training.data.contents import HASH_SIZE
from deepspeech_training.data.loading import LoadedPart, LoadedSample, join

# (window, step) in ms: DeepSpeech's, others', windows without overlap, and with gaps.
GEOMETRIES = [(32, 20), (25, 10), (20, 7), (20, 20), (20, 30)]


def mfccs_of(audio: np.ndarray, features: FeatureConfig) -> np.ndarray:
    """Something that stands for a frame: its own samples and nothing else, and none of less than a window."""
    frames = features.frames(len(audio))
    starts = features.step_samples * np.arange(frames)
    windows = audio[starts[:, None] + np.arange(features.window_samples)]
    return np.stack([windows[:, 0], windows[:, -1], *([windows.mean(axis=1)] * (N_INPUT - 2))], axis=1)


def sample(seed: int, length: int, features: FeatureConfig, *, is_mfccs: bool, characters: int) -> LoadedSample:
    audio = np.random.default_rng(seed).uniform(-1, 1, length).astype(np.float32)
    return LoadedSample(
        name=f'{seed}.wav'.encode(),
        sound=mfccs_of(audio, features) if is_mfccs else audio,
        is_mfccs=is_mfccs,
        labels=np.arange(1, characters + 1, dtype=np.int32),
        content=bytes([seed]) * HASH_SIZE,
        samples=length,
    )


def features_of(part: LoadedPart, features: FeatureConfig) -> np.ndarray:
    """What the graph makes of a part: `[rows, frames, N_INPUT]`."""
    frames = [np.zeros([1, N_INPUT], np.float32), part.known, mfccs_of(part.sound, features)]
    found: np.ndarray = np.concatenate(frames)[part.places]
    return found


@given(
    st.sampled_from(GEOMETRIES),
    st.lists(st.tuples(st.integers(0, 3000), st.booleans(), st.integers(0, 9)), min_size=1, max_size=9),
)
def test_rows_have_the_features_of_their_samples_alone(
    geometry: tuple[int, int], rows: list[tuple[int, bool, int]]
) -> None:
    features = FeatureConfig(window_ms=geometry[0], step_ms=geometry[1])
    loaded = [
        sample(seed, features.window_samples + more, features, is_mfccs=is_mfccs, characters=characters)
        for seed, (more, is_mfccs, characters) in enumerate(rows)
    ]
    part = join(loaded, features)
    found = features_of(part, features)
    for row, one in enumerate(loaded):
        expected = one.sound if one.is_mfccs else mfccs_of(one.sound, features)
        length = part.feature_lengths[row]
        np.testing.assert_array_equal(found[row, :length], expected)
        assert not found[row, length:].any()
        count = part.label_lengths[row]
        assert list(part.labels[row, :count]) == list(one.labels)
        assert not part.labels[row, count:].any()
        assert part.names[row] == one.name
        assert part.seconds[row] == np.float32(one.samples / features.sample_rate)
        assert part.samples[row] == one.samples
        assert part.contents[row].tobytes() == one.content
    assert found.shape[1] == part.feature_lengths.max()
    assert part.labels.shape[1] == part.label_lengths.max()


def test_little_more_is_computed_than_the_frames_of_the_samples() -> None:
    features = FeatureConfig()
    loaded = [sample(seed, 16000 + 100 * seed, features, is_mfccs=False, characters=1) for seed in range(8)]
    part = join(loaded, features)
    assert features.frames(len(part.sound)) <= part.feature_lengths.sum() + len(loaded)


def test_nothing_is_computed_of_samples_whose_mfccs_are_known() -> None:
    features = FeatureConfig(backend='python_speech_features')
    one = sample(1, 8000, features, is_mfccs=False, characters=2)
    known = one._replace(sound=reference_mfccs(one.sound, features), is_mfccs=True)
    part = join([known, known], features)
    assert part.sound.shape == (0,)
    np.testing.assert_array_equal(features_of(part, features), [known.sound, known.sound])


@pytest.mark.parametrize(
    ('sizes', 'most', 'expected'),
    [
        ([], 4, []),
        ([4], 4, [[0, 1, 2, 3]]),
        ([1, 5], 4, [[0, -1, -1, -1], [1, 2, 3, 4], [5, -1, -1, -1]]),
        ([2, 3], 1, [[0], [1], [2], [3], [4]]),
    ],
)
def test_parts_of_batches(sizes: list[int], most: int, expected: list[list[int]]) -> None:
    places, parts = EpochBatches(np.arange(sum(sizes), dtype=np.int32), np.array(sizes, np.int64)).parts(most)
    assert places.shape == (len(expected), most)
    assert places.tolist() == expected
    assert parts.tolist() == [-(-size // most) for size in sizes]


@given(st.lists(st.integers(1, 40), max_size=20), st.integers(1, 9))
def test_parts_have_every_row_once_in_its_order_and_none_of_two_batches(sizes: list[int], most: int) -> None:
    batches = EpochBatches(np.arange(sum(sizes), dtype=np.int32), np.array(sizes, np.int64))
    places, parts = batches.parts(most)
    assert places[places >= 0].tolist() == list(range(sum(sizes)))
    ends = np.cumsum(parts)
    for number, (end, count) in enumerate(zip(ends, parts, strict=True)):
        of_batch = places[end - count : end]
        assert np.sum(of_batch >= 0) == sizes[number]
        assert np.all(of_batch[:-1] >= 0)  # only the last can have fewer
