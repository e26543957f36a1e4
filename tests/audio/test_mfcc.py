"""MFCCs in NumPy are TensorFlow's, and arrive in pieces as they are in the whole."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from deepspeech_training.audio.mfcc import MfccComputer, MfccStream
from deepspeech_training.config import FeatureConfig
from deepspeech_training.model.features import compute_mfccs

tfv1 = tf.compat.v1


def sound(seconds: float, rate: int) -> npt.NDArray[np.float32]:
    """Tones that come and go above a little noise, in 16 bits."""
    time = np.arange(int(seconds * rate)) / rate
    tones = np.sin(2000 * time) * np.sin(5 * time) ** 2 + 0.3 * np.sin(9000 * time)
    noise = np.random.default_rng(1).normal(scale=0.001, size=len(time))
    return (np.rint(20000 * (0.5 * tones + noise)) / 32768).astype(np.float32)


@pytest.mark.parametrize(
    ('rate', 'window', 'step'), [(16000, 32, 20), (8000, 32, 20), (44100, 25, 10), (16000, 20, 30)]
)
def test_they_are_those_of_training(rate: int, window: int, step: int, graph: tf.Graph) -> None:
    features = FeatureConfig(sample_rate=rate, window_ms=window, step_ms=step)
    samples = np.concatenate([sound(1.3, rate), np.zeros(rate // 10, np.float32)])
    mfccs = compute_mfccs(tf.constant(samples), features)
    with tfv1.Session(graph=graph) as session:
        expected = session.run(mfccs)
    np.testing.assert_allclose(MfccComputer(features)(samples), expected, rtol=0, atol=1e-5)


def test_less_than_a_window_has_none() -> None:
    assert MfccComputer(FeatureConfig())(np.zeros(511, np.float32)).shape == (0, 26)
    assert MfccComputer(FeatureConfig())(np.zeros(512, np.float32)).shape == (1, 26)


@given(
    st.lists(st.integers(0, 2000), max_size=12),
    st.sampled_from([(32, 20), (20, 20), (10, 35)]),
    st.sampled_from(['tensorflow', 'python_speech_features']),
)
@settings(max_examples=60, deadline=None)
def test_pieces_give_what_the_whole_gives(lengths: list[int], geometry: tuple[int, int], backend: str) -> None:
    window, step = geometry
    computer = MfccComputer(FeatureConfig(sample_rate=8000, window_ms=window, step_ms=step, backend=backend))
    samples = sound(sum(lengths) / 8000 + 0.001, 8000)[: sum(lengths)]
    stream = MfccStream(computer)
    pieces = [stream.feed(piece) for piece in np.split(samples, np.cumsum(lengths)[:-1])] if lengths else []
    whole = computer(samples)
    assert sum(map(len, pieces)) == len(whole)
    if len(whole):
        np.testing.assert_allclose(np.concatenate(pieces), whole, rtol=0, atol=5e-5)
