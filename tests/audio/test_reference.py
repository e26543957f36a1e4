"""MFCCs by python_speech_features, against the steps written out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import python_speech_features
from hypothesis import given, settings
from hypothesis import strategies as st

from deepspeech_training.audio.reference import reference_mfccs
from deepspeech_training.config import N_INPUT, FeatureConfig


def noise(samples: int, seed: int = 1) -> npt.NDArray[np.float32]:
    """Samples that int16 can hold, so that nothing is lost when they are written as such."""
    values = np.random.default_rng(seed).integers(-8000, 8000, samples)
    return (values / 32768).astype(np.float32)


def mel(hertz: npt.NDArray[np.float64] | float) -> npt.NDArray[np.float64]:
    return 2595 * np.log10(1 + np.asarray(hertz, np.float64) / 700)


def mfccs_step_by_step(values: npt.NDArray[np.float64], rate: int, window: int, step: int, nfft: int) -> np.ndarray:
    """From the definitions: pre-emphasis, Hamming window, power spectrum, triangular mel filters, DCT, lifter."""
    emphasized = np.append(values[0], values[1:] - 0.97 * values[:-1])
    starts = range(0, len(values) - window + 1, step)
    frames = np.stack([emphasized[start : start + window] for start in starts]) * np.hamming(window)
    power = np.abs(np.fft.rfft(frames, nfft)) ** 2 / nfft
    edges = 700 * (10 ** (np.linspace(0, mel(rate / 2), 28) / 2595) - 1)
    bins = np.floor((nfft + 1) * edges / rate)
    filters = np.zeros([26, nfft // 2 + 1])
    for number in range(26):
        low, peak, high = bins[number : number + 3]
        for position in range(int(low), int(high)):
            rising = position < peak
            filters[number, position] = (position - low) / (peak - low) if rising else (high - position) / (high - peak)
    logarithms = np.log(np.maximum(power @ filters.T, np.finfo(float).eps))
    order = np.arange(26)[:, None]
    cosines = np.cos(np.pi * order * (2 * np.arange(26) + 1) / 52) * np.sqrt(2 / 26)
    cosines[0] /= np.sqrt(2)
    cepstrum = logarithms @ cosines.T * (1 + 11 * np.sin(np.pi * np.arange(26) / 22))
    cepstrum[:, 0] = np.log(power.sum(axis=1))
    return cepstrum


@pytest.mark.parametrize(('rate', 'nfft'), [(16000, 512), (8000, 256)])
def test_agrees_with_the_definition(rate: int, nfft: int) -> None:
    features = FeatureConfig(sample_rate=rate)
    samples = noise(5000)

    expected = mfccs_step_by_step(
        samples.astype(np.float64) * 32768, rate, features.window_samples, features.step_samples, nfft
    )

    np.testing.assert_allclose(reference_mfccs(samples, features), expected, rtol=1e-5, atol=1e-4)


def test_agrees_with_deepspeechs_call_on_int16() -> None:
    samples = noise(16000)
    values = (samples * 32768).astype(np.int16)

    expected = python_speech_features.mfcc(
        values, samplerate=16000, numcep=26, winlen=0.032, winstep=0.02, winfunc=np.hamming
    )

    mfccs = reference_mfccs(samples, FeatureConfig())
    assert len(expected) == len(mfccs) + 1  # the package's padded last frame
    np.testing.assert_allclose(mfccs, expected[:-1], rtol=1e-5, atol=1e-4)


@settings(deadline=None)
@given(st.integers(0, 4000), st.sampled_from([8000, 11025, 16000]), st.integers(10, 40), st.integers(5, 25))
def test_number_of_frames(samples: int, rate: int, window_ms: int, step_ms: int) -> None:
    features = FeatureConfig(sample_rate=rate, window_ms=window_ms, step_ms=step_ms)

    mfccs = reference_mfccs(noise(samples), features)

    assert mfccs.shape == (features.frames(samples), N_INPUT)
    assert mfccs.dtype == np.float32
    assert np.isfinite(mfccs).all()


def test_silence_is_finite() -> None:
    assert np.isfinite(reference_mfccs(np.zeros(16000, np.float32), FeatureConfig())).all()


def test_a_frame_does_not_depend_on_what_follows() -> None:
    features = FeatureConfig()
    samples = noise(8000)

    np.testing.assert_allclose(
        reference_mfccs(samples[:4000], features),
        reference_mfccs(samples, features)[: features.frames(4000)],
        atol=1e-4,
    )
