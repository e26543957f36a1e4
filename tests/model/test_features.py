"""MFCCs in the graph: their number and shape."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.config import FeatureConfig
from deepspeech_training.model.features import compute_mfccs

tfv1 = tf.compat.v1


@pytest.mark.parametrize('sample_rate', [8000, 16000])
@pytest.mark.parametrize('windows', [0.5, 1.0, 1.6, 1.7, 20.3])
def test_number_of_frames_is_the_configurations(sample_rate: int, windows: float, graph: tf.Graph) -> None:
    features = FeatureConfig(sample_rate=sample_rate)
    samples = np.sin(np.arange(int(windows * features.window_samples)) / 5).astype(np.float32)
    mfccs = compute_mfccs(tf.constant(samples), features)
    assert mfccs.shape.as_list()[1] == 26
    with tfv1.Session(graph=graph) as session:
        computed = session.run(mfccs)
    assert computed.shape == (features.frames(len(samples)), 26)
    assert np.isfinite(computed).all()


def test_silence_has_finite_mfccs(graph: tf.Graph) -> None:
    with tfv1.Session(graph=graph) as session:
        assert np.isfinite(session.run(compute_mfccs(tf.zeros([16000]), FeatureConfig()))).all()
