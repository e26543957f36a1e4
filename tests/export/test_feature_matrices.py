"""MFCCs by matrices are those of the operations and of the package that the trainer uses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from deepspeech_training.audio.reference import reference_mfccs
from deepspeech_training.config import FEATURE_BACKENDS, FeatureConfig
from deepspeech_training.export.feature_matrices import feature_matrices
from deepspeech_training.model.features import compute_mfccs

Samples = npt.NDArray[np.float32]


def matrix_mfccs(samples: Samples, features: FeatureConfig) -> Samples:
    """What runtimes compute of `samples` `[samples]`, `[frames, 26]`."""
    matrices = feature_matrices(features)
    starts = features.step_samples * np.arange(features.frames(len(samples)))
    frames = np.pad(samples, [1, 0])[starts[:, np.newaxis] + np.arange(1 + features.window_samples)]
    real, imaginary = np.split(frames.astype(np.float64) @ matrices.spectrum, 2, axis=1)
    power = real**2 + imaginary**2
    energies = (np.sqrt(power) if matrices.magnitude else power) @ matrices.filters
    cepstra: npt.NDArray[np.float64] = np.log(np.maximum(energies, matrices.least)) @ matrices.cepstrum
    return cepstra.astype(np.float32)


def noise() -> Samples:
    return np.random.default_rng(0).uniform(-0.5, 0.5, 8000).astype(np.float32)


def tone() -> Samples:
    """Without anything in most bins, so that rounding errors would show."""
    return (0.99 * np.sin(0.3 * np.arange(8000))).astype(np.float32)


def offset() -> Samples:
    return np.full(8000, 0.5, np.float32)


def silence() -> Samples:
    return np.zeros(8000, np.float32)


def trainers_mfccs(samples: Samples, features: FeatureConfig) -> npt.NDArray[np.float32]:
    if features.backend == 'python_speech_features':
        return reference_mfccs(samples, features)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        mfccs: npt.NDArray[np.float32] = session.run(compute_mfccs(tf.constant(samples), features))
        return mfccs


@pytest.mark.parametrize('backend', FEATURE_BACKENDS)
@pytest.mark.parametrize('geometry', [(16000, 32, 20), (8000, 32, 20), (16000, 25, 10), (44100, 20, 30)])
@pytest.mark.parametrize('signal', [noise, tone, offset, silence])
def test_they_are_the_trainers(backend: str, geometry: tuple[int, int, int], signal: Callable[[], Samples]) -> None:
    features = FeatureConfig(*geometry, backend=backend)
    expected = trainers_mfccs(signal(), features)
    assert expected.shape == (features.frames(8000), 26)
    np.testing.assert_allclose(matrix_mfccs(signal(), features), expected, rtol=0, atol=1e-3)
