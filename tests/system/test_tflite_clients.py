"""TensorFlow Lite files in the programs that people have, old and new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from deepspeech_training.config import CheckpointConfig, Config, ExportConfig, FeatureConfig, ModelConfig
from deepspeech_training.export.formats import export_model
from deepspeech_training.infer import compute_logits
from deepspeech_training.text.alphabet import Alphabet
from tests.system.clients import COQUI, DEEPSPEECH_TFLITE, LITERT, Client, ask
from tests.system.talking_model import write_checkpoint_that_says

SENTENCE = 'she had your dark suit in greasy wash water all year'
ENGLISH = Alphabet(" abcdefghijklmnopqrstuvwxyz'", 'alphabet.txt')
BOTH = pytest.mark.parametrize('client', [DEEPSPEECH_TFLITE, COQUI], ids=lambda client: client.requirement)
QUANTIZED = pytest.mark.parametrize('quantize', [False, True], ids=['float', '8 bits'])


@pytest.fixture
def ldc93s1(deepspeech_data: Path) -> Path:
    return deepspeech_data / 'deepspeech-0.9.3' / 'ldc93s1'


@pytest.fixture
def audio(ldc93s1: Path) -> Path:
    return ldc93s1 / 'LDC93S1_pcms16le_1_16000.wav'


def trained(ldc93s1: Path, folder: Path, **export: Any) -> Config:
    """The model that knows one sentence."""
    return Config(
        model=ModelConfig(n_hidden=100),
        checkpoints=CheckpointConfig(load_dir=str(ldc93s1 / 'checkpoint')),
        export=ExportConfig(export_dir=str(folder / 'export'), tflite=True, **export),
    )


def transcribe(client: Client, model: str, audio: Path, **options: Any) -> dict[str, Any]:
    """What the client says about `audio`; it must say nothing about errors."""
    answer = ask(client, {'model': model, 'audio': [str(audio)], **options})
    assert 'rror' not in answer.errors, answer.errors
    return answer.result


@BOTH
@QUANTIZED
def test_the_sentence_comes_out(quantize: bool, client: Client, ldc93s1: Path, audio: Path, tmp_path: Path) -> None:
    model = export_model(trained(ldc93s1, tmp_path, quantize=quantize, beam_width=77), ENGLISH)[0]
    scorer = {'scorer': str(ldc93s1 / 'pruned_lm.scorer')}
    for options in ({}, scorer) if quantize else (scorer,):  # old runtimes are slow with float32
        result = transcribe(client, model, audio, chunk=777, **options)
        assert result['batch'] == result['stream'] == [SENTENCE]
        assert SENTENCE.startswith(result['intermediate'][0])
        assert len(result['intermediate'][0]) > len(SENTENCE) / 2
        assert result['sample_rate'] == 16000
        assert result['beam_width'] == 77


@BOTH
@pytest.mark.parametrize('n_steps', [1, 50])
def test_other_numbers_of_steps(n_steps: int, client: Client, ldc93s1: Path, audio: Path, tmp_path: Path) -> None:
    model = export_model(trained(ldc93s1, tmp_path, n_steps=n_steps), ENGLISH)[0]
    result = transcribe(client, model, audio, beam_width=100)
    assert result['batch'] == result['stream'] == [SENTENCE]


@BOTH
@pytest.mark.parametrize('backend', ['tensorflow', 'python_speech_features'])
def test_an_alphabet_of_another_language(backend: str, client: Client, tmp_path: Path) -> None:
    alphabet = Alphabet(' абвгдеёжз')
    config = Config(
        features=FeatureConfig(backend=backend),
        model=ModelConfig(n_hidden=8),
        checkpoints=CheckpointConfig(load_dir=str(tmp_path)),
        export=ExportConfig(export_dir=str(tmp_path / 'export'), tflite=True, language='ru'),
    )
    write_checkpoint_that_says('ёж', alphabet, config)
    soundfile.write(tmp_path / 'silence.wav', np.zeros(16000, np.int16), 16000, subtype='PCM_16')
    result = transcribe(client, export_model(config, alphabet)[0], tmp_path / 'silence.wav', beam_width=20)
    assert result['batch'] == result['stream'] == ['ёж']


@QUANTIZED
def test_todays_runtime(quantize: bool, ldc93s1: Path, audio: Path, tmp_path: Path) -> None:
    config = trained(ldc93s1, tmp_path, quantize=quantize, language='en-US', beam_width=77)
    result = ask(LITERT, {'model': export_model(config, ENGLISH)[0], 'audio': [str(audio)]}).result
    assert result['metadata'] == {
        'metadata_version': 6,
        'metadata_sample_rate': 16000,
        'metadata_feature_win_len': 32,
        'metadata_feature_win_step': 20,
        'metadata_feature_backend': 'tensorflow',
        'metadata_beam_width': 77,
        'metadata_alphabet': ENGLISH.serialize().hex(),
        'metadata_language': 'en-US',
    }
    (probabilities,) = np.array(result['probabilities'])
    assert most_likely(probabilities) == SENTENCE
    if not quantize:
        samples, _ = soundfile.read(audio, dtype='float32')
        logits = compute_logits(config, ENGLISH, samples)
        expected = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
        np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-3)


def most_likely(probabilities: np.ndarray) -> str:
    """The text that TensorFlow's beam search finds in `probabilities` [frames, n_output]."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        logits = tf.constant(np.log(probabilities[:, np.newaxis]), tf.float32)
        (found,), _ = tf.nn.ctc_beam_search_decoder(logits, [len(probabilities)], beam_width=100)
        return ENGLISH.decode(session.run(found.values).tolist())
