"""The exported TensorFlow Lite file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorflow.lite.python import schema_py_generated as schema

from deepspeech_training.config import Config, FeatureConfig, ModelConfig
from deepspeech_training.errors import CheckpointError, FlagError
from deepspeech_training.export.formats import export_model
from deepspeech_training.export.tflite_for_clients import ALIGNMENT
from deepspeech_training.text.alphabet import Alphabet
from tests.export.frozen_graph import FrozenGraph
from tests.export.tflite_file import TFLiteFile

FULLY_CONNECTED = schema.BuiltinOperator.FULLY_CONNECTED


def exported(config: Config, alphabet: Alphabet, **changes: Any) -> TFLiteFile:
    changes = {'tflite': True, 'quantize': False, **changes}
    config = dataclasses.replace(config, export=dataclasses.replace(config.export, **changes))
    return TFLiteFile(export_model(config, alphabet)[0])


def mfccs_like_speech(frames: int) -> np.ndarray:
    return np.random.default_rng(4).normal(scale=3, size=[frames, 26]).astype(np.float32)


def test_interface_is_that_of_deepspeechs_export(
    resume_check: Config, alphabet: Alphabet, deepspeech_data: Path
) -> None:
    ours = exported(resume_check, alphabet, quantize=True)
    theirs = TFLiteFile(deepspeech_data / 'deepspeech-0.9.3/resume-check/output_graph.tflite')
    assert set(ours.inputs) == set(theirs.inputs)
    for name, detail in theirs.inputs.items():
        assert list(ours.inputs[name]['shape']) == list(detail['shape']), name
    named = {name for name in theirs.outputs if not name.startswith('Minimum')}  # some of theirs have no reader
    assert set(ours.outputs) == named | {'metadata_feature_backend'}
    for name in named - {'mfccs'}:  # of which theirs does not know the shape
        assert list(ours.outputs[name]['shape']) == list(theirs.outputs[name]['shape']), name
    for name in named - {'metadata_alphabet', 'metadata_language'}:
        assert ours.outputs[name]['dtype'] == theirs.outputs[name]['dtype'], name
        if name.startswith('metadata_'):
            assert ours.value(name) == theirs.value(name), name
    mfccs = np.load(deepspeech_data / 'deepspeech-0.9.3/resume-check/features_logits.npz')
    name = next(name for name in mfccs.files if name.startswith('mfcc/'))
    # Quantized to the same 8 bits, and computed by the same runtime: only the order of sums differs.
    np.testing.assert_allclose(
        ours.probabilities(mfccs[name]), theirs.probabilities(mfccs[name]), rtol=0, atol=0.02
    )  # fmt: skip


@pytest.mark.parametrize('n_steps', [1, 7, 16])
@pytest.mark.parametrize('layer_norm', [False, True])
def test_float_weights_give_the_numbers_of_the_frozen_graph(
    n_steps: int, layer_norm: bool, alphabet: Alphabet, small: Config, random_checkpoint: Callable[..., Config]
) -> None:
    config = random_checkpoint(
        dataclasses.replace(small, model=ModelConfig(n_hidden=20, layer_norm=layer_norm)), alphabet
    )
    mfccs = mfccs_like_speech(41)
    expected = FrozenGraph(export_model(config, alphabet)[0]).probabilities(mfccs)
    assert expected.max(axis=1).min() > 1.5 / expected.shape[1]  # not all alike
    got = exported(config, alphabet, n_steps=n_steps).probabilities(mfccs)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize('quantize', [False, True])
@pytest.mark.parametrize('backend', ['tensorflow', 'python_speech_features'])
def test_features_are_those_of_the_frozen_graph(
    backend: str, quantize: bool, alphabet: Alphabet, small: Config
) -> None:
    config = dataclasses.replace(small, features=FeatureConfig(backend=backend))
    ours, frozen = exported(config, alphabet, quantize=quantize), FrozenGraph(export_model(config, alphabet)[0])
    assert ours.value('metadata_feature_backend') == backend.encode()
    random = np.random.default_rng(3)
    for samples in (random.uniform(-0.5, 0.5, size=512), np.zeros(512)):
        feed = {'input_samples': samples}
        np.testing.assert_allclose(
            ours.run(['mfccs'], feed)[0], frozen.run(['mfccs'], feed)[0], rtol=0, atol=1e-3, err_msg=backend
        )


def test_quantized_weights(alphabet: Alphabet, small: Config, random_checkpoint: Callable[..., Config]) -> None:
    config = random_checkpoint(dataclasses.replace(small, model=ModelConfig(n_hidden=64)), alphabet)
    config = dataclasses.replace(config, features=FeatureConfig(backend='python_speech_features'))
    floats, quantized = exported(config, alphabet), exported(config, alphabet, quantize=True)
    of_features = quantized.model.ancestors('mfccs')
    tensors = quantized.model.graph.tensors
    weights = {'features': set(), 'model': set()}  # type: dict[str, set[int]]
    for operator in quantized.model.operators(FULLY_CONNECTED):
        weights['features' if id(operator) in of_features else 'model'].add(operator.inputs[1])
    assert len(weights['model']) == 6, 'five layers and the LSTM, whose weights all steps share'
    for index in weights['model']:
        assert tensors[index].type == schema.TensorType.INT8
        assert len(tensors[index].quantization.scale) == 1
    assert all(tensors[index].type == schema.TensorType.FLOAT32 for index in weights['features'])
    code = next(code for code in quantized.model.root.operatorCodes if code.builtinCode == FULLY_CONNECTED)
    assert code.version == 3

    mfccs = mfccs_like_speech(41)
    expected, got = floats.probabilities(mfccs), quantized.probabilities(mfccs)
    assert 0 < np.abs(got - expected).mean() < 0.01
    assert np.mean(got.argmax(axis=1) == expected.argmax(axis=1)) > 0.8

    without_features = [exported(dataclasses.replace(config, features=FeatureConfig()), alphabet, quantize=quantize)
                        for quantize in (False, True)]  # fmt: skip
    sizes = [len(file.content) for file in without_features]
    n_weights = 494 * 64 + 2 * 64 * 64 + 128 * 256 + 64 * 64 + 64 * 29
    assert sizes[0] - sizes[1] == pytest.approx(3 * n_weights, abs=2000)


def test_metadata_come_from_the_last_operators(small: Config, alphabet: Alphabet) -> None:
    """Integers first: an old runtime prepares none behind the first text, and old clients read the alphabet alone."""
    model = exported(small, alphabet).model
    names = [model.graph.tensors[operator.outputs[0]].name.decode() for operator in model.graph.operators]
    metadata = [name for name in names if name.startswith('metadata_')]
    assert names[-len(metadata) :] == metadata
    assert set(metadata[:5]) == {
        f'metadata_{name}' for name in ('version', 'sample_rate', 'feature_win_len', 'feature_win_step', 'beam_width')
    }
    assert metadata[5] == 'metadata_alphabet'
    assert set(metadata[6:]) == {'metadata_language', 'metadata_feature_backend'}


@pytest.mark.parametrize('quantize', [False, True])
def test_buffers_are_aligned(quantize: bool, small: Config, alphabet: Alphabet) -> None:
    content = exported(small, alphabet, quantize=quantize).content
    model = schema.Model.GetRootAsModel(content, 0)
    buffers = [model.Buffers(index) for index in range(model.BuffersLength())]
    offsets = [buffer.DataAsNumpy().ctypes.data for buffer in buffers if buffer.DataLength()]
    base = np.frombuffer(content, np.uint8).ctypes.data
    assert len(offsets) > 20
    assert {(offset - base) % ALIGNMENT for offset in offsets} == {0}


def test_metadata_are_those_of_the_flags(small: Config, alphabet: Alphabet) -> None:
    config = dataclasses.replace(small, features=FeatureConfig(sample_rate=8000, window_ms=24, step_ms=12))
    file = exported(config, alphabet, beam_width=123, language='de-Latn-AT', n_steps=5)
    expected = {'version': 6, 'sample_rate': 8000, 'feature_win_len': 24, 'feature_win_step': 12, 'beam_width': 123,
                'language': b'de-Latn-AT', 'feature_backend': b'tensorflow',
                'alphabet': alphabet.serialize()}  # fmt: skip
    assert {name: file.value(f'metadata_{name}') for name in expected} == expected
    assert list(file.inputs['input_samples']['shape']) == [192]
    assert list(file.inputs['input_node']['shape']) == [1, 5, 19, 26]


@pytest.mark.parametrize('labels', [' абвгдеёжз', ['क', 'क्ष', ' ', '#']])
def test_alphabets_of_other_languages(
    labels: list[str], small: Config, random_checkpoint: Callable[..., Config]
) -> None:
    alphabet = Alphabet(labels)
    file = exported(random_checkpoint(small, alphabet), alphabet)
    assert file.value('metadata_alphabet') == alphabet.serialize()
    assert list(file.outputs['logits']['shape']) == [16, len(labels) + 1]


def test_files(small: Config, alphabet: Alphabet) -> None:
    first = exported(small, alphabet, file_name='digits', quantize=True).content
    assert exported(small, alphabet, file_name='digits.tflite', quantize=True).content == first
    folder = Path(small.export.export_dir)
    assert {path.name for path in folder.iterdir()} == {
        'digits.tflite', 'author_model_0.0.1.md', '.deepspeech_export.json'
    }  # fmt: skip
    assert 'runtime: tflite\n' in (folder / 'author_model_0.0.1.md').read_text()


def test_a_larger_batch_is_not_for_clients(small: Config, alphabet: Alphabet, caplog: pytest.LogCaptureFixture) -> None:
    file = exported(small, alphabet, batch_size=2, n_steps=3)
    assert 'run models of batch size 1 only' in caplog.text
    windows = np.random.default_rng(5).normal(scale=3, size=[2, 3, 19, 26]).astype(np.float32)
    state = np.zeros([2, small.model.n_hidden])
    (both,) = file.run(['logits'], {'input_node': windows, 'previous_state_c': state, 'previous_state_h': state})
    single = exported(small, alphabet, n_steps=3)
    for row in range(2):
        feed = {'input_node': windows[row : row + 1], 'previous_state_c': state[:1], 'previous_state_h': state[:1]}
        np.testing.assert_allclose(both[row::2], single.run(['logits'], feed)[0], rtol=0, atol=1e-5)


def test_bad_input_leaves_the_earlier_export(small: Config, alphabet: Alphabet) -> None:
    folder = Path(small.export.export_dir)
    exported(small, alphabet)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(CheckpointError, match=r'12.*13'):
        exported(dataclasses.replace(small, model=ModelConfig(n_hidden=13)), alphabet, remove_export=True)
    with pytest.raises(FlagError, match=r'--export_batch_size=0: does not fit --export_tflite.*--n_steps'):
        exported(small, alphabet, batch_size=0)
    with pytest.raises(FlagError, match=r'--noexport_quantize.*give --export_tflite'):
        exported(small, alphabet, tflite=False)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
