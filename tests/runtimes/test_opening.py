"""All kinds of models give the same log-probabilities, whole and in pieces, and those that cannot are named."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from deepspeech_training.audio.reading import read_audio
from deepspeech_training.checkpoints import CheckpointStore
from deepspeech_training.config import Config, ExportConfig, FeatureConfig
from deepspeech_training.errors import CheckpointError, ModelError
from deepspeech_training.graphs import geometry
from deepspeech_training.model.acoustic import create_model
from deepspeech_training.model.features import compute_mfccs
from deepspeech_training.runtimes import open_model
from deepspeech_training.text.alphabet import Alphabet
from tests.runtimes.conftest import exported

tfv1 = tf.compat.v1

Samples = npt.NDArray[np.float32]
ENGLISH = 'data/alphabet.txt'


def of_training(config: Config, samples: Samples) -> np.ndarray:
    """The log-probabilities [frames, n_output] that the training graph gives."""
    tfv1.disable_v2_behavior()
    alphabet = Alphabet.from_file(config.data.alphabet_config_path)
    with tf.Graph().as_default(), tfv1.Session() as session:
        features = compute_mfccs(tf.constant(samples), config.features)[tf.newaxis]
        output = create_model(features, None, config.model, alphabet.size + 1, training=False, lstm='block')
        CheckpointStore(config.checkpoints, geometry(config, alphabet)).restore_for_evaluation(session)
        values: np.ndarray = session.run(tf.nn.log_softmax(output.logits[:, 0]))
        return values


KINDS = {
    'checkpoint': '',
    'frozen graph': '',
    'frozen graph of any size': '',
    'TFLite model': 'output_graph.tflite',
    'SavedModel': 'model',
    'ONNX model': 'output_graph.onnx',
    'ONNX model of MFCCs': 'output_graph.acoustic.onnx',
    'ONNX model of Triton': 'triton/model',
}
"""Below the folder of `exports`."""


@pytest.mark.parametrize('kind', KINDS)
def test_one_model_one_result(
    kind: str, toy: Config, frozen: str, exports: Path, samples: Samples, tmp_path: Path
) -> None:
    path = toy.checkpoints.load_dir if kind == 'checkpoint' else frozen
    if kind == 'frozen graph of any size':
        path = exported(toy, ExportConfig(export_dir=str(tmp_path), batch_size=0))
    if KINDS[kind]:
        path = str(exports / KINDS[kind])
    with open_model(path) as model:
        assert model.kind == kind.split(' of ')[0]
        assert (model.sample_rate, model.alphabet.labels) == (16000, tuple(' abc'))
        whole = model.log_probabilities(samples)
        np.testing.assert_allclose(whole, of_training(toy, samples), rtol=0, atol=1e-5)
        np.testing.assert_array_equal(model.logits(samples), whole)
        for size in (37, 333, 16000):
            stream = model.stream()
            pieces = [stream.feed(samples[start : start + size]) for start in range(0, len(samples), size)]
            assert size == 16000 or sum(map(len, pieces)) > len(whole) / 2 or kind == 'ONNX model of Triton'
            np.testing.assert_allclose(np.concatenate([*pieces, stream.finish()]), whole, rtol=0, atol=1e-5)
        assert model.log_probabilities(samples[:100]).shape == (0, 5)
        assert model.stream().finish().shape == (0, 5)


def test_half_of_an_onnx_model_is_no_model(exports: Path) -> None:
    with pytest.raises(ModelError, match=r'mfccs\.onnx: gives mfccs and frames, not log_probabilities'):
        open_model(str(exports / 'output_graph.mfccs.onnx'))


def test_damaged_onnx_models_and_saved_models(exports: Path, tmp_path: Path) -> None:
    content = (exports / 'output_graph.onnx').read_bytes()
    (tmp_path / 'cut.onnx').write_bytes(content[:-100])
    with pytest.raises(ModelError, match=r'cut\.onnx: '):
        open_model(str(tmp_path / 'cut.onnx'))
    folder = Path(shutil.copytree(exports / 'model', tmp_path / 'model'))
    (data,) = folder.rglob('variables.data*')
    data.write_bytes(data.read_bytes()[:-100])
    with pytest.raises(ModelError, match='TensorFlow cannot load this SavedModel'):
        open_model(str(folder))


def test_a_beam_width_is_the_exports(frozen: str) -> None:
    with open_model(frozen) as model:
        assert model.beam_width == 77


def test_what_deepspeech_wrote(deepspeech_data: Path) -> None:
    """Its own logits of one recording; the 8 bits of its TFLite file are worth 0.05."""
    folder = deepspeech_data / 'deepspeech-0.9.3'
    expected = np.load(folder / 'resume-check' / 'features_logits.npz')['logits/LDC93S1']
    expected = expected - np.log(np.exp(expected).sum(axis=1, keepdims=True))
    recording = read_audio(str(folder / 'ldc93s1' / 'LDC93S1_pcms16le_1_16000.wav'), FeatureConfig())
    for name, tolerance in (('checkpoint', 1e-4), ('output_graph.pb', 1e-4), ('output_graph.tflite', 0.05)):
        alphabet = ENGLISH if name == 'checkpoint' else ''
        with open_model(str(folder / 'resume-check' / name), alphabet_path=alphabet) as model:
            np.testing.assert_allclose(model.log_probabilities(recording), expected, rtol=0, atol=tolerance)


def test_tflite_needs_no_tensorflow(deepspeech_data: Path) -> None:
    pytest.importorskip('ai_edge_litert', reason='ai-edge-litert is not installed')
    program = (
        'import sys, numpy\nfrom deepspeech_training.runtimes import open_model\n'
        'open_model(sys.argv[1]).log_probabilities(numpy.zeros(9000, numpy.float32))\n'
        "assert 'tensorflow' not in sys.modules\n"
    )
    model = deepspeech_data / 'deepspeech-0.9.3' / 'resume-check' / 'output_graph.tflite'
    subprocess.run([sys.executable, '-c', program, str(model)], check=True, timeout=120)


def test_a_checkpoint_of_deepspeech_does_not_say_its_alphabet(deepspeech_data: Path) -> None:
    with pytest.raises(ModelError, match='give --alphabet_config_path'):
        open_model(str(deepspeech_data / 'deepspeech-0.9.3' / 'ldc93s1' / 'checkpoint'))


def test_an_alphabet_that_does_not_fit(toy: Config, frozen: str, tmp_path: Path) -> None:
    (tmp_path / 'other.txt').write_text('x\na\nb\nc\n')
    with pytest.raises(CheckpointError, match='other characters'):
        open_model(toy.checkpoints.load_dir, alphabet_path=str(tmp_path / 'other.txt'))
    with pytest.raises(CheckpointError, match='alphabet of 4 characters'):
        open_model(toy.checkpoints.load_dir, alphabet_path=ENGLISH)
    with pytest.raises(ModelError, match='is for checkpoints'):
        open_model(frozen, alphabet_path=ENGLISH)


def test_a_damaged_checkpoint_gives_way_to_an_older_one(toy: Config, samples: Samples, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(toy.checkpoints.load_dir, tmp_path / 'copy'))
    with open_model(str(folder / 'train-2.index')) as model:
        older = model.log_probabilities(samples)
    (folder / 'train-4.data-00000-of-00001').write_bytes(b'')
    with open_model(str(folder)) as model:
        assert model.path.endswith('train-2')
        np.testing.assert_array_equal(model.log_probabilities(samples), older)
    with pytest.raises(ModelError, match=r'train-4\.data-00000-of-00001 has 0 bytes'):
        open_model(str(folder / 'train-4'))
    with pytest.raises(ModelError, match='there is no best checkpoint'):
        open_model(str(folder), load='best')


def test_a_graph_that_is_none_of_speech(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        tf.constant(1.0, name='one')
        tf.constant([6], name='metadata_version')
    (tmp_path / 'one.pb').write_bytes(graph.as_graph_def().SerializeToString())
    with pytest.raises(ModelError, match=r'lacks metadata_sample_rate, .*metadata_alphabet'):
        open_model(str(tmp_path / 'one.pb'))


@pytest.mark.parametrize(('lost', 'reason'), [('logits', 'it lacks logits'), ('layer_1/bias', 'cannot read')])
def test_a_graph_without_a_part(lost: str, reason: str, frozen: str, tmp_path: Path) -> None:
    definition = tfv1.GraphDef.FromString(Path(frozen).read_bytes())
    kept = tfv1.GraphDef(node=[node for node in definition.node if node.name != lost])
    (tmp_path / 'lost.pb').write_bytes(kept.SerializeToString())
    with pytest.raises(ModelError, match=reason):
        open_model(str(tmp_path / 'lost.pb'))


def test_a_graph_for_batches(toy: Config, tmp_path: Path) -> None:
    path = exported(toy, ExportConfig(export_dir=str(tmp_path), batch_size=3))
    with pytest.raises(ModelError, match=r'input_node has shape \[3, 16, 19, 26\].*--export_batch_size 1'):
        open_model(path)


def test_a_damaged_tflite_file(deepspeech_data: Path, tmp_path: Path) -> None:
    content = (deepspeech_data / 'deepspeech-0.9.3' / 'resume-check' / 'output_graph.tflite').read_bytes()
    (tmp_path / 'cut.tflite').write_bytes(content[: len(content) // 3])
    with pytest.raises(ModelError, match=r'cut.tflite: is no TFLite model that can be run'):
        open_model(str(tmp_path / 'cut.tflite'))


def test_features_of_the_training_are_used(toy: Config, samples: Samples) -> None:
    """What is given is for checkpoints that do not say theirs."""
    with open_model(toy.checkpoints.load_dir, features=replace(toy.features, window_ms=64)) as model:
        assert model.info.features.window_ms == 32
