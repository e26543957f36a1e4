"""What augmentations of spectrograms and features do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepspeech_training.audio.mfcc import MfccComputer
from deepspeech_training.config import FEATURE_BACKENDS, FeatureConfig
from deepspeech_training.data.augmentation import matrices

FRAMES, BANDS = 40, 257


def random(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def matrix(frames: int = FRAMES, bands: int = BANDS) -> np.ndarray:
    return random().uniform(1, 2, [frames, bands]).astype(np.float32)


@pytest.mark.parametrize('factor', [0.5, 0.8, 1.0, 1.25, 2.0])
def test_pitch_moves_the_peak(factor: float) -> None:
    """A tone of 1 kHz, bin 32 of 512 at 16 kHz."""
    samples = np.sin(2 * np.pi * 1000 * np.arange(16000) / 16000).astype(np.float32)
    spectrogram = MfccComputer(FeatureConfig()).spectrogram(samples)
    changed = matrices.pitch(spectrogram, factor)
    assert changed.shape == spectrogram.shape
    assert set(spectrogram.argmax(axis=1)) == {32}
    assert set(changed.argmax(axis=1)) == {round(32 * factor)}


def test_pitch_leaves_nothing_above_what_is_known() -> None:
    changed = matrices.pitch(matrix(), 0.5)
    assert not changed[:, 129:].any()
    assert changed[:, :129].all()
    np.testing.assert_allclose(matrices.pitch(matrix(), 1.0), matrix(), rtol=1e-6)


@pytest.mark.parametrize('factor', [0.5, 0.8, 1.0, 1.25, 2.0])
def test_tempo_changes_the_length_and_keeps_the_course(factor: float) -> None:
    ramp = np.repeat(np.arange(100, dtype=np.float32)[:, None], 3, axis=1)
    changed = matrices.tempo(ramp, factor, 1)
    assert len(changed) == round(100 / factor)
    places = (np.arange(len(changed)) + 0.5) * 100 / len(changed) - 0.5
    np.testing.assert_allclose(changed[:, 1], np.clip(places, 0, 99), atol=1e-4)


@pytest.mark.parametrize(('least', 'expected'), [(1, 20), (20, 20), (33, 33), (99, 40)])
def test_tempo_leaves_the_frames_that_are_needed_and_adds_none(least: int, expected: int) -> None:
    assert len(matrices.tempo(matrix(), 2.0, least)) == expected


def test_tempo_of_one_frame() -> None:
    np.testing.assert_allclose(matrices.tempo(matrix(1), 10.0, 1), matrix(1))
    assert matrices.tempo(matrix(1), 0.1, 1).shape == (10, BANDS)


def test_warp_moves_what_is_inside_and_keeps_the_edges() -> None:
    spectrogram = matrix()
    changed = matrices.warp(spectrogram, 3, 2, 0.5, 0.5, random())
    assert changed.shape == spectrogram.shape
    for edge in (np.s_[0, 0], np.s_[-1, 0], np.s_[0, -1], np.s_[-1, -1]):
        assert changed[edge] == pytest.approx(spectrogram[edge])
    assert np.mean(np.abs(changed - spectrogram)) > 0.1
    np.testing.assert_allclose(matrices.warp(spectrogram, 3, 2, 0.0, 0.0, random()), spectrogram, rtol=1e-5)
    np.testing.assert_allclose(matrices.warp(spectrogram, 0, 0, 1.0, 1.0, random()), spectrogram, rtol=1e-5)


def test_warp_in_time_alone_keeps_frequencies_and_order() -> None:
    ramp = np.repeat(np.arange(60, dtype=np.float32)[:, None], 20, axis=1)
    for seed in range(20):
        changed = matrices.warp(ramp, 4, 0, 10.0, 0.0, random(seed))
        np.testing.assert_allclose(changed, np.repeat(changed[:, :1], 20, axis=1), atol=1e-3)
        assert (np.diff(changed[:, 0]) >= 0).all(), 'time does not run backwards, however strong the warp'
        across = np.repeat(np.arange(20, dtype=np.float32)[None], 60, axis=0)
        np.testing.assert_allclose(matrices.warp(across, 4, 0, 10.0, 0.0, random(seed)), across, atol=1e-3)


@pytest.mark.parametrize(('n', 'size'), [(0, 5), (1, 0), (1, 5), (3, 7), (1, 257), (2, 1000)])
def test_frequency_masks_zero_their_bands_and_nothing_else(n: int, size: int) -> None:
    changed = matrices.frequency_mask(matrix(), n, size, random())
    masked = ~changed.any(axis=0)
    np.testing.assert_array_equal(changed[:, ~masked], matrix()[:, ~masked])
    assert min(size, BANDS) * min(n, 1) <= masked.sum() <= min(n * size, BANDS)
    assert masked.sum() <= np.abs(np.diff(np.concatenate([[0], masked, [0]]))).sum() / 2 * min(n * size, BANDS)


@pytest.mark.parametrize('shape', [(FRAMES, BANDS), (16000,)])
def test_a_time_mask_zeroes_its_frames_and_nothing_else(shape: tuple[int, ...]) -> None:
    values = random().uniform(1, 2, shape).astype(np.float32)
    changed = matrices.time_mask(values, 1, 10, random())
    masked = np.flatnonzero(~changed.reshape(len(changed), -1).any(axis=1))
    np.testing.assert_array_equal(masked, np.arange(masked[0], masked[0] + 10))
    kept = np.delete(np.arange(len(values)), masked)
    np.testing.assert_array_equal(changed[kept], values[kept])


def test_masks_may_be_anywhere() -> None:
    starts = {
        int(np.flatnonzero(matrices.time_mask(np.ones(12, np.float32), 1, 10, random(s)) == 0)[0]) for s in range(50)
    }
    assert starts == {0, 1, 2}


@pytest.mark.parametrize(
    ('milliseconds', 'unit_ms', 'expected'), [(50, 20, 3), (49, 20, 2), (10, 20, 1), (9, 20, 0), (50, 1 / 16, 800)]
)
def test_durations(milliseconds: float, unit_ms: float, expected: int) -> None:
    assert matrices.frames_of(milliseconds, unit_ms) == expected


@pytest.mark.parametrize('rate', [0.0, 0.05, 0.5, 1.0])
def test_dropout(rate: float) -> None:
    changed = matrices.dropout(matrix(), rate, random())
    dropped = changed == 0
    assert dropped.mean() == pytest.approx(rate, abs=0.02)
    np.testing.assert_array_equal(changed[~dropped], matrix()[~dropped])


def test_random_numbers_that_are_added_and_multiplied() -> None:
    added = matrices.add(matrix(), 0.5, random()) - matrix()
    assert (added.mean(), added.std()) == (pytest.approx(0, abs=0.02), pytest.approx(0.5, rel=0.03))
    factors = matrices.multiply(matrix(), 0.3, random()) / matrix()
    assert (factors.mean(), factors.std()) == (pytest.approx(1, abs=0.02), pytest.approx(0.3, rel=0.03))


@pytest.mark.parametrize('backend', FEATURE_BACKENDS)
@pytest.mark.parametrize(
    'changes', [{}, {'window_ms': 25, 'step_ms': 10, 'sample_rate': 8000}], ids=['default', 'other']
)
def test_a_spectrogram_that_is_not_changed_makes_the_same_features(backend: str, changes: dict[str, Any]) -> None:
    computer = MfccComputer(FeatureConfig(backend=backend, **changes))
    samples = (random().integers(-9000, 9000, 9000) / 32768).astype(np.float32)
    spectrogram = computer.spectrogram(samples)
    np.testing.assert_allclose(computer.from_spectrogram(spectrogram), computer(samples), atol=1e-5)
    assert spectrogram.dtype == np.float32
    assert np.isfinite(computer.from_spectrogram(np.zeros_like(spectrogram))).all()
