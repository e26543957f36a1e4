"""The ONNX files in ONNX Runtime: valid, told apart by their metadata, and equal in batches, alone and in chunks."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

from deepspeech_training.audio.mfcc import MfccComputer
from deepspeech_training.cli import main
from deepspeech_training.config import Config, ExportConfig, FeatureConfig, ModelConfig
from deepspeech_training.errors import CheckpointError, ExportError
from deepspeech_training.export import onnx_graph
from deepspeech_training.export.formats import export_model
from deepspeech_training.text.alphabet import Alphabet
from tests.export.conftest import write_random_checkpoint
from tests.export.saved_model import Array, padded, valid

N_HIDDEN = 12
KINDS = {
    'tensorflow': (FeatureConfig(), ModelConfig(n_hidden=N_HIDDEN)),
    'python_speech_features': (FeatureConfig(backend='python_speech_features'), ModelConfig(n_hidden=N_HIDDEN)),
    'layer_norm': (FeatureConfig(window_ms=20, step_ms=30), ModelConfig(n_hidden=N_HIDDEN, layer_norm=True)),
}
TYPES = {'tensor(float)': 'TYPE_FP32', 'tensor(int32)': 'TYPE_INT32'}


def sound(length: int) -> Array:
    noise = np.random.default_rng(length).normal(scale=0.2, size=length) * np.sin(np.arange(length) / 3000)
    return noise.astype(np.float32)


class Exported:
    """The files of one export, and sessions with them."""

    def __init__(self, config: Config, alphabet: Alphabet) -> None:
        self.config = config
        self.names = export_model(config, alphabet)
        self.folder = Path(config.export.export_dir)
        self._sessions = {half: self.session(f'output_graph{half}.onnx') for half in ('', '.mfccs', '.acoustic')}

    def session(self, name: str) -> onnxruntime.InferenceSession:
        return onnxruntime.InferenceSession(self.folder / name, providers=['CPUExecutionProvider'])

    def run(self, half: str, **inputs: Any) -> list[npt.NDArray[Any]]:
        """All outputs of the whole model ('') or of one half."""
        outputs: list[npt.NDArray[Any]] = self._sessions[half].run(None, inputs)
        return outputs

    def whole(self, samples: Array) -> Array:
        """Log-probabilities of one utterance alone."""
        log_probabilities, frames = self.run('', samples=samples[np.newaxis], lengths=int32(len(samples)))
        assert log_probabilities.shape[:2] == (1, frames[0])
        return log_probabilities[0]


def int32(*values: int) -> npt.NDArray[np.int32]:
    return np.array(values, np.int32)


@pytest.fixture(scope='module')
def alphabet() -> Alphabet:
    return Alphabet(" abcdefghijklmnopqrstuvwxyz'", 'alphabet.txt')


@pytest.fixture(scope='module', params=KINDS)
def model(request: pytest.FixtureRequest, alphabet: Alphabet, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    features, sizes = KINDS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    export = ExportConfig(export_dir=str(folder / 'export'), onnx=True, language='en', beam_width=77)
    config = Config(features=features, model=sizes, export=export)
    return Exported(write_random_checkpoint(config, alphabet, folder / 'checkpoint'), alphabet)


def test_files_are_valid(model: Exported) -> None:
    assert [Path(name).relative_to(model.folder).as_posix() for name in model.names] == [
        *('output_graph.onnx', 'output_graph.mfccs.onnx', 'output_graph.acoustic.onnx'),
        *('triton/model/1/model.onnx', 'triton/model/config.pbtxt', 'author_model_0.0.1.md'),
    ]
    for name in model.names[:3]:
        onnx.checker.check_model(name, full_check=True)
        content = onnx.load(name)
        assert content.ir_version == 6
        assert [(opset.domain, opset.version) for opset in content.opset_import] == [('', 11)]


def test_metadata(model: Exported, alphabet: Alphabet) -> None:
    for half in ('', '.mfccs', '.acoustic'):
        metadata = model.session(f'output_graph{half}.onnx').get_modelmeta().custom_metadata_map
        assert json.loads(metadata.pop('alphabet')) == list(alphabet.labels)
        features = model.config.features
        assert metadata == {
            'version': '6',
            'sample_rate': '16000',
            'feature_win_len': str(features.window_ms),
            'feature_win_step': str(features.step_ms),
            'feature_backend': features.backend,
            'n_input': '26',
            'n_context': '9',
            'n_hidden': '12',
            'beam_width': '77',
            'language': 'en',
            'model_name': 'model',
            'model_version': '0.0.1',
        }


def test_a_batch_gives_what_each_utterance_gives(model: Exported) -> None:
    utterances = [sound(length) for length in (9000, 319, 14000, 512, 0, 6000)]
    batch, lengths = padded(utterances, filler=np.nan)
    log_probabilities, frames = model.run('', samples=batch, lengths=lengths)
    assert frames.tolist() == [model.config.features.frames(length) for length in lengths]
    assert log_probabilities.shape == (6, max(frames), 29)
    for together, samples in zip(valid(log_probabilities, frames), utterances, strict=True):
        np.testing.assert_allclose(together, model.whole(samples), rtol=0, atol=1e-4)


def test_lengths_beyond_the_samples_and_no_samples_at_all(model: Exported) -> None:
    samples = sound(4000)[np.newaxis]
    assert model.run('', samples=samples, lengths=int32(10**6))[1] == [model.config.features.frames(4000)]
    for audio, length in ((samples, -5), (samples, 0), (samples[:, :0], 0)):
        log_probabilities, frames = model.run('', samples=audio, lengths=int32(length))
        assert frames == [0]
        assert log_probabilities.shape == (1, 0, 29)


def test_mfccs_are_the_trainers(model: Exported) -> None:
    batch, lengths = padded([sound(9000), np.full(4000, 0.5, np.float32)], filler=np.nan)
    mfccs, frames = model.run('.mfccs', samples=batch, lengths=lengths)
    computer = MfccComputer(model.config.features)
    for row, samples in zip(valid(mfccs, frames), (batch[0, :9000], batch[1, :4000]), strict=True):
        np.testing.assert_allclose(row, computer(samples), rtol=0, atol=1e-3)
    assert not mfccs[1, frames[1] :].any()


@pytest.mark.parametrize('n_steps', [1, 7, 1000])
def test_halves_give_what_the_whole_gives(n_steps: int, model: Exported) -> None:
    """Two utterances side by side, in chunks: the second one ends within a chunk, and goes along for the rest."""
    batch, lengths = padded([sound(9000), sound(6000)], filler=np.nan)
    expected = valid(*model.run('', samples=batch, lengths=lengths))
    mfccs, frames = model.run('.mfccs', samples=batch, lengths=lengths)
    mfccs = np.pad(mfccs, [(0, 0), (9, 9), (0, 0)])
    state = [np.zeros([2, N_HIDDEN], np.float32)] * 2
    chunks = []
    for start in range(0, frames.max(), n_steps):
        number = np.clip(frames - start, 0, n_steps).astype(np.int32)
        inputs = {'mfccs': mfccs[:, start : start + number.max() + 18], 'frames': number}
        chunk, *new_state = model.run('.acoustic', **inputs, state_c=state[0], state_h=state[1])
        chunks.append(chunk)
        for old, new in zip(state, new_state, strict=True):
            assert (new == old).all(axis=1).tolist() == (number == 0).tolist()
        state = new_state
    for row, whole in zip(valid(np.concatenate(chunks, axis=1), frames), expected, strict=True):
        np.testing.assert_allclose(row, whole, rtol=0, atol=1e-4)


def test_tritons_configuration_is_that_of_the_model(model: Exported) -> None:
    folder = model.folder / 'triton' / 'model'
    assert (folder / '1' / 'model.onnx').read_bytes() == (model.folder / 'output_graph.onnx').read_bytes()
    text = (folder / 'config.pbtxt').read_text()
    assert 'name: "model"\nplatform: "onnxruntime_onnx"\nmax_batch_size: 16\n' in text
    assert 'dynamic_batching {' in text
    pattern = r'name: "(\w+)"\s+data_type: (\w+)\s+dims: \[ ([-\d, ]+) \](\s+reshape: { shape: \[ \] })?'
    described = {
        name: (dtype, [] if reshape else [int(dim) for dim in dims.split(',')])
        for name, dtype, dims, reshape in re.findall(pattern, text)
    }
    session = model.session('triton/model/1/model.onnx')
    assert described == {
        value.name: (TYPES[value.type], [dim if isinstance(dim, int) else -1 for dim in value.shape[1:]])
        for value in (*session.get_inputs(), *session.get_outputs())
    }


def test_names_in_tritons_configuration_are_quoted(small: Config, alphabet: Alphabet) -> None:
    config = dataclasses.replace(small, export=dataclasses.replace(small.export, onnx=True, model_name='my "ä" model'))
    export_model(config, alphabet)
    text = Path(small.export.export_dir, 'triton', 'my "ä" model', 'config.pbtxt').read_text(encoding='utf-8')
    assert 'name: "my \\"ä\\" model"\n' in text


def test_the_same_bytes_again_and_nothing_lost_by_a_failure(
    small: Config, alphabet: Alphabet, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = dataclasses.replace(small, export=dataclasses.replace(small.export, onnx=True, remove_export=True))
    folder = Path(small.export.export_dir)

    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in folder.rglob('*') if path.is_file()}

    export_model(config, alphabet)
    before = contents()
    export_model(config, alphabet)
    assert contents() == before
    with pytest.raises(CheckpointError, match=r'28.*29'):
        export_model(config, Alphabet((*alphabet.labels, 'ß'), 'other.txt'))
    monkeypatch.setattr(onnx_graph, 'LARGEST', 10_000)  # a model of 2 GB would take too long
    with pytest.raises(
        ExportError, match=r'weights of [\d,]+ bytes, an ONNX file at most 10,000; use --export_savedmodel'
    ):
        export_model(config, alphabet)
    assert contents() == before


def test_a_missing_package_is_told_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, 'onnx', None)  # as Python marks what cannot be imported
    status = main(['--train_files', 'train.csv', '--export_dir', str(tmp_path / 'export'), '--export_onnx'])
    assert status == 2
    assert "needs the package onnx, which is not installed: pip install '.[onnx]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
