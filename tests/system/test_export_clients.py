"""Exports in the real `deepspeech` 0.9.3, as people run it; some in its version with TensorFlow Lite, too."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from deepspeech_training.config import (
    CheckpointConfig,
    Config,
    DataConfig,
    ExportConfig,
    FeatureConfig,
    ModelConfig,
    ReportConfig,
    ScheduleConfig,
)
from deepspeech_training.export.formats import export_model
from deepspeech_training.export.graphdef import CLIENT_OPS
from deepspeech_training.infer import one_shot_infer
from deepspeech_training.text.alphabet import Alphabet
from tests.helpers import run_training
from tests.system.clients import COQUI, DEEPSPEECH, DEEPSPEECH_TFLITE, Answer, Client, ask
from tests.system.talking_model import write_checkpoint_that_says

tfv1 = tf.compat.v1

SENTENCE = 'she had your dark suit in greasy wash water all year'
ENGLISH = Alphabet(" abcdefghijklmnopqrstuvwxyz'", 'alphabet.txt')


@pytest.fixture
def ldc93s1(deepspeech_data: Path) -> Path:
    return deepspeech_data / 'deepspeech-0.9.3' / 'ldc93s1'


@pytest.fixture
def trained(ldc93s1: Path, tmp_path: Path) -> Config:
    """The model that knows one sentence."""
    return Config(
        model=ModelConfig(n_hidden=100),
        checkpoints=CheckpointConfig(load_dir=str(ldc93s1 / 'checkpoint')),
        export=ExportConfig(export_dir=str(tmp_path / 'export')),
    )


def transcribe(model: str, *audio: Path, client: Client = DEEPSPEECH, **options: Any) -> Answer:
    """What the client says about `audio`; it must say nothing about errors."""
    answer = ask(client, {'model': model, 'audio': [str(path) for path in audio], **options})
    assert 'rror' not in answer.errors, answer.errors
    assert 'No OpKernel' not in answer.errors, answer.errors
    return answer


@pytest.mark.parametrize('n_steps', [1, 16, 50])
def test_deepspeechs_checkpoint_is_understood(n_steps: int, trained: Config, ldc93s1: Path) -> None:
    export = dataclasses.replace(trained.export, n_steps=n_steps, beam_width=77)
    model = export_model(dataclasses.replace(trained, export=export), ENGLISH)[0]
    for chunk in (1, 777) if n_steps == 16 else (1000,):
        result = transcribe(model, ldc93s1 / 'LDC93S1_pcms16le_1_16000.wav', chunk=chunk).result
        assert result['batch'] == [SENTENCE]
        assert result['stream'] == [SENTENCE]
        assert SENTENCE.startswith(result['intermediate'][0])
        assert len(result['intermediate'][0]) > len(SENTENCE) / 2
        assert result['sample_rate'] == 16000
        assert result['beam_width'] == 77


def test_with_a_scorer(trained: Config, ldc93s1: Path) -> None:
    model = export_model(trained, ENGLISH)[0]
    scorer = str(ldc93s1 / 'pruned_lm.scorer')
    result = transcribe(model, ldc93s1 / 'LDC93S1_pcms16le_1_16000.wav', scorer=scorer).result
    assert result['batch'] == [SENTENCE]
    assert result['stream'] == [SENTENCE]
    assert result['beam_width'] == 500


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['plain', 'layer_norm', 'python_speech_features'])
def test_what_we_trained_ourselves(kind: str, ldc93s1: Path, tmp_path: Path) -> None:
    audio = ldc93s1 / 'LDC93S1_pcms16le_1_16000.wav'
    (tmp_path / 'train.csv').write_text(
        f'wav_filename,wav_filesize,transcript\n{audio},{audio.stat().st_size},{SENTENCE}\n'
    )
    (tmp_path / 'alphabet.txt').write_text('\n'.join(ENGLISH.labels) + '\n')
    backend = kind if kind == 'python_speech_features' else 'tensorflow'
    config = Config(
        features=FeatureConfig(backend=backend),
        model=ModelConfig(n_hidden=64, layer_norm=kind == 'layer_norm', dropout=(0.0,) * 6),
        data=DataConfig(
            train_files=(str(tmp_path / 'train.csv'),), alphabet_config_path=str(tmp_path / 'alphabet.txt')
        ),
        optimizer=dataclasses.replace(Config().optimizer, learning_rate=0.003),
        # Long enough that no character is a near thing: training in several threads is not the same to the last bit.
        schedule=ScheduleConfig(epochs=300),
        checkpoints=CheckpointConfig(load_dir=str(tmp_path / 'model'), save_dir=str(tmp_path / 'model')),
        report=ReportConfig(summary_dir=str(tmp_path / 'summaries'), show_progressbar=False),
        export=ExportConfig(export_dir=str(tmp_path / 'export')),
        one_shot_infer=str(audio),
    )
    run_training(config)
    assert one_shot_infer(config, ENGLISH) == SENTENCE
    result = transcribe(export_model(config, ENGLISH)[0], audio).result
    assert result['batch'] == [SENTENCE]
    config = dataclasses.replace(config, export=dataclasses.replace(config.export, tflite=True))
    for client in (DEEPSPEECH_TFLITE, COQUI):
        result = transcribe(export_model(config, ENGLISH)[0], audio, client=client).result
        assert result['batch'] == [SENTENCE], client
    assert result['stream'] == [SENTENCE]


def test_an_alphabet_of_another_language(tmp_path: Path) -> None:
    """With weights that say two letters, whatever is heard."""
    alphabet = Alphabet(' абвгдеёжз')
    config = Config(
        model=ModelConfig(n_hidden=8),
        checkpoints=CheckpointConfig(load_dir=str(tmp_path)),
        export=ExportConfig(export_dir=str(tmp_path / 'export')),
    )
    write_checkpoint_that_says('ёж', alphabet, config)
    soundfile.write(tmp_path / 'silence.wav', np.zeros(16000, np.int16), 16000, subtype='PCM_16')
    result = transcribe(export_model(config, alphabet)[0], tmp_path / 'silence.wav').result
    assert result['batch'] == ['ёж']
    assert result['stream'] == ['ёж']


def test_the_client_has_the_operations_it_is_said_to_have(trained: Config, ldc93s1: Path) -> None:
    """Its model version is computed with all those that DeepSpeech's own graphs do without."""
    path = Path(export_model(trained, ENGLISH)[0])
    definition = tfv1.GraphDef.FromString(path.read_bytes())
    exported = {node.op for node in definition.node}
    kept = [node for node in definition.node if node.name != 'metadata_version']
    path.write_bytes(tfv1.GraphDef(node=[*kept, *version_of_all_operations().node]).SerializeToString())
    used = {node.op for node in tfv1.GraphDef.FromString(path.read_bytes()).node}
    assert used - exported >= CLIENT_OPS - exported
    result = transcribe(str(path), ldc93s1 / 'LDC93S1_pcms16le_1_16000.wav').result
    assert result['batch'] == [SENTENCE]


def version_of_all_operations() -> tf.compat.v1.GraphDef:
    """A graph whose node `metadata_version` is 6 or more, and depends on many operations."""
    raw = tf.raw_ops
    with tf.Graph().as_default() as graph:
        with tf.name_scope('all_operations'):
            x = tf.constant(0.5, shape=[2, 3])
            results = [
                *(raw.Add(x=x, y=x), raw.AddV2(x=x, y=x), raw.Sub(x=x, y=x), raw.SquaredDifference(x=x, y=x)),
                *(raw.Elu(features=x), raw.LogSoftmax(logits=x), raw.Rsqrt(x=x), raw.StopGradient(input=x)),
                *(raw.Mean(input=x, axis=0), raw.Sum(input=x, axis=0), raw.Squeeze(input=tf.expand_dims(x, 0))),
                *(raw.Fill(dims=raw.Range(start=1, limit=3, delta=1), value=1.0), raw.Tile(input=x, multiples=[2, 1])),
                tf.cast(raw.Shape(input=x), tf.float32),
            ]
            largest = raw.Max(input=[tf.reduce_max(tf.reshape(result, [-1])) for result in results], axis=0)
            version = tf.cast(tf.nn.relu(largest) + 6.0, tf.int32)
        tf.reshape(version, [1], name='metadata_version')
        return tfv1.train.export_meta_graph(graph=graph, strip_default_attrs=True).graph_def
