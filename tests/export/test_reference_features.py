"""The features of python_speech_features in the exported graph, window by window."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
import tensorflow as tf

from deepspeech_training.audio.reference import reference_mfccs
from deepspeech_training.config import Config, FeatureConfig
from deepspeech_training.export.formats import export_model
from deepspeech_training.export.reference_features import window_reference_mfccs
from deepspeech_training.text.alphabet import Alphabet
from tests.export.frozen_graph import FrozenGraph

tfv1 = tf.compat.v1


def window_by_window(samples: npt.NDArray[np.float32], features: FeatureConfig) -> npt.NDArray[np.float32]:
    """`[frames, 26]`, as a client gets them."""
    with tf.Graph().as_default(), tfv1.Session() as session:
        window = tfv1.placeholder(tf.float32, [features.window_samples])
        mfccs = window_reference_mfccs(window, features)
        starts = features.step_samples * np.arange(features.frames(len(samples)))
        windows = [samples[start : start + features.window_samples] for start in starts]
        return np.concatenate([session.run(mfccs, {window: values}) for values in windows])


@pytest.mark.parametrize(
    'features', [FeatureConfig(), FeatureConfig(sample_rate=8000), FeatureConfig(window_ms=25, step_ms=10)]
)
@pytest.mark.parametrize('loudness', [1.0, 1e-3])
def test_equals_the_package(features: FeatureConfig, loudness: float) -> None:
    samples = np.random.default_rng(0).normal(scale=loudness / 4, size=8000).astype(np.float32)
    samples = np.round(32768 * samples.clip(-1, 1)) / np.float32(32768)
    samples[0] = 0
    # The sample before each window equals its first one, which is what a window's features take it for.
    for start in range(features.step_samples, len(samples), features.step_samples):
        samples[start - 1] = samples[start]
    expected = reference_mfccs(samples, features)
    np.testing.assert_allclose(window_by_window(samples, features), expected, rtol=0, atol=2e-3)


def test_silence_and_a_single_click() -> None:
    features = FeatureConfig()
    samples = np.zeros(512 + 3 * 320, np.float32)
    samples[-100] = 0.5
    expected = reference_mfccs(samples, features)
    np.testing.assert_allclose(window_by_window(samples, features), expected, rtol=0, atol=2e-3)


def test_close_to_whole_files_of_speech(deepspeech_data: Path) -> None:
    features = FeatureConfig()
    path = deepspeech_data / 'deepspeech-0.9.3/ldc93s1/LDC93S1_pcms16le_1_16000.wav'
    samples, _ = soundfile.read(path, dtype='float32')
    expected = reference_mfccs(samples, features)
    error = window_by_window(samples, features) - expected
    # The sample before a window is not known. Without pre-emphasis of the first one the share is 0.17.
    share = np.sqrt(np.square(error).mean(axis=0)) / expected.std(axis=0)
    assert share.mean() < 0.1


def test_in_the_exported_graph(small: Config, alphabet: Alphabet) -> None:
    config = dataclasses.replace(small, features=FeatureConfig(backend='python_speech_features'))
    graph = FrozenGraph(export_model(config, alphabet)[0])
    assert graph.value('metadata_feature_backend') == b'python_speech_features'
    samples = np.random.default_rng(1).uniform(-0.1, 0.1, size=512).astype(np.float32)
    samples[0] = 0
    got = graph.run(['mfccs'], {'input_samples': samples})[0]
    np.testing.assert_allclose(got, reference_mfccs(samples, config.features), rtol=0, atol=2e-3)
