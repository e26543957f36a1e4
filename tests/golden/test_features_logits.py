"""MFCCs and logits against DeepSpeech 0.9.3's own, from one of its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from deepspeech_training.config import FeatureConfig, ModelConfig
from deepspeech_training.model.acoustic import create_model
from deepspeech_training.model.features import compute_mfccs

tfv1 = tf.compat.v1

N_HIDDEN = 64
N_OUTPUT = 29


@pytest.fixture(scope='module')
def expected(deepspeech_data: Path) -> Mapping[str, np.ndarray]:
    with np.load(deepspeech_data / 'deepspeech-0.9.3/resume-check/features_logits.npz') as arrays:
        return dict(arrays)


def utterances(expected: Mapping[str, np.ndarray]) -> list[str]:
    return [key.removeprefix('mfcc/') for key in expected if key.startswith('mfcc/')]


def read_samples(deepspeech_data: Path, name: str) -> np.ndarray:
    folder = deepspeech_data / 'deepspeech-0.9.3'
    path = folder / f'resume-check/wav/{name}.wav'
    if name == 'LDC93S1':
        path = folder / 'ldc93s1/LDC93S1_pcms16le_1_16000.wav'
    samples, rate = soundfile.read(path, dtype='float32')
    assert rate == 16000
    return samples


def test_mfccs_are_deepspeechs(deepspeech_data: Path, expected: Mapping[str, np.ndarray], graph: tf.Graph) -> None:
    features = FeatureConfig()
    samples = tfv1.placeholder(tf.float32, [None])
    mfccs = compute_mfccs(samples, features)
    with tfv1.Session(graph=graph) as session:
        assert len(utterances(expected)) == 9
        for name in utterances(expected):
            audio = read_samples(deepspeech_data, name)
            computed = session.run(mfccs, {samples: audio})
            assert computed.shape == (features.frames(len(audio)), 26)
            np.testing.assert_allclose(computed, expected[f'mfcc/{name}'], rtol=0, atol=1e-4, err_msg=name)


@pytest.mark.parametrize('lstm', ['hoisted', 'block', 'unrolled'])
def test_logits_are_deepspeechs(
    lstm: str, deepspeech_data: Path, expected: Mapping[str, np.ndarray], graph: tf.Graph
) -> None:
    """All utterances in one batch, so that each has padding behind it except the longest."""
    names = utterances(expected)
    mfccs = [expected[f'mfcc/{name}'] for name in names]
    lengths = np.array([len(frames) for frames in mfccs], np.int32)
    batch = np.zeros([len(names), lengths.max(), 26], np.float32)
    for row, frames in zip(batch, mfccs, strict=True):
        row[: len(frames)] = frames

    model = ModelConfig(n_hidden=N_HIDDEN)
    output = create_model(tf.constant(batch), tf.constant(lengths), model, N_OUTPUT, training=False, lstm=lstm)
    variables = tfv1.global_variables()
    checkpoint = tf.train.load_checkpoint(str(deepspeech_data / 'deepspeech-0.9.3/resume-check/checkpoint/train-12'))
    with tfv1.Session(graph=graph) as session:
        for variable in variables:
            variable.load(checkpoint.get_tensor(variable.op.name), session)
        logits = session.run(output.logits)
    for index, name in enumerate(names):
        computed = logits[: lengths[index], index]
        np.testing.assert_allclose(computed, expected[f'logits/{name}'], rtol=0, atol=1e-3, err_msg=name)
