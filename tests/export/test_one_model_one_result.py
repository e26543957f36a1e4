"""One checkpoint gives the same log-probabilities whatever runs it: training graph, one-shot, and every export.

Whole utterances and chunks of them, alone and padded in a batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
import tensorflow as tf

from deepspeech_training.audio.reading import read_audio
from deepspeech_training.audio.reference import reference_mfccs
from deepspeech_training.checkpoints import CheckpointStore
from deepspeech_training.config import CheckpointConfig, Config, ExportConfig, FeatureConfig, ModelConfig
from deepspeech_training.data.batch import Batch
from deepspeech_training.export.formats import export_model
from deepspeech_training.graphs import geometry, make_tower_fn
from deepspeech_training.infer import compute_logits
from deepspeech_training.model.features import compute_mfccs
from deepspeech_training.runtimes import open_model
from deepspeech_training.text.alphabet import Alphabet
from tests.export.conftest import write_random_checkpoint
from tests.export.frozen_graph import FrozenGraph, context_windows
from tests.export.saved_model import Array, SavedModel, padded, valid

tfv1 = tf.compat.v1

ALPHABET = Alphabet(" abcdefghijklmnopqrstuvwxyz'", 'alphabet.txt')
N_STEPS = 16
LEAST = -80.0
"""Clients get probabilities; below this their logarithm is not a number that float32 can tell."""

RANDOM_MODELS = {
    'random': Config(model=ModelConfig(n_hidden=24)),
    'layer_norm': Config(model=ModelConfig(n_hidden=24, layer_norm=True, relu_clip=6.0)),
    'python_speech_features': Config(
        model=ModelConfig(n_hidden=24), features=FeatureConfig(backend='python_speech_features')
    ),
}


class Model:
    """A checkpoint with its exports, and utterances for it."""

    def __init__(self, config: Config, utterances: list[Array], folder: Path) -> None:
        self.config = config
        self.utterances = utterances
        self._folder = folder
        self.frozen = self._export('frozen')
        self.dynamic = self._export('dynamic', batch_size=0)
        self.tflite = self._export('tflite', tflite=True, quantize=False)
        self.others = self._export('others', savedmodel=True, onnx=True).parent
        self.saved_model = SavedModel(self.others / 'model' / '1')
        self.onnx = onnxruntime.InferenceSession(str(self.others / 'output_graph.onnx'))

    def _export(self, name: str, **changes: object) -> Path:
        """The path of the model's file, or what would be the `.pb`'s."""
        export = ExportConfig(export_dir=str(self._folder / name), n_steps=N_STEPS, **changes)  # type: ignore[arg-type]
        paths = export_model(dataclasses.replace(self.config, export=export), ALPHABET)
        suffix = '.tflite' if export.tflite else '.pb'
        assert export.savedmodel or f'{self._folder}/{name}/output_graph{suffix}' in paths
        return self._folder / name / f'output_graph{suffix}'

    def mfccs(self) -> list[Array]:
        """`[frames, N_INPUT]` of each utterance, as training has them."""
        if self.config.features.backend == 'python_speech_features':
            return [reference_mfccs(samples, self.config.features) for samples in self.utterances]
        with tf.Graph().as_default(), tfv1.Session() as session:
            samples = tfv1.placeholder(tf.float32, [None])
            mfccs = compute_mfccs(samples, self.config.features)
            return [session.run(mfccs, {samples: values}) for values in self.utterances]


@pytest.fixture(scope='module', params=['ldc93s1', *RANDOM_MODELS])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == 'ldc93s1':
        return real_model(request.getfixturevalue('deepspeech_data'), folder)
    config = write_random_checkpoint(RANDOM_MODELS[request.param], ALPHABET, folder / 'checkpoint')
    random = np.random.default_rng(7)
    lengths = (11000, 5000, 520)
    sounds = [random.normal(scale=0.2, size=n) * np.sin(np.arange(n) / 2000) for n in lengths]
    return Model(config, [sound.astype(np.float32) for sound in sounds], folder)


def real_model(data: Path, folder: Path) -> Model:
    """DeepSpeech's checkpoint, and real speech: its sentence, that resampled, and digits."""
    ldc93s1 = data / 'deepspeech-0.9.3' / 'ldc93s1'
    config = Config(model=ModelConfig(n_hidden=100), checkpoints=CheckpointConfig(load_dir=str(ldc93s1 / 'checkpoint')))
    files = [ldc93s1 / f'LDC93S1_pcms16le_1_{rate}.wav' for rate in (16000, 8000)]
    files += sorted((data / 'digits').rglob('*.wav'))[:2]
    return Model(config, [read_audio(str(file), config.features) for file in files], folder)


@pytest.fixture(scope='module')
def expected(model: Model) -> list[Array]:
    """From the graph that evaluation runs, on one padded batch."""
    mfccs = model.mfccs()
    lengths = np.array([len(frames) for frames in mfccs], np.int32)
    features = np.zeros([len(mfccs), lengths.max(), 26], np.float32)
    for row, frames in zip(features, mfccs, strict=True):
        row[: len(frames)] = frames
    rows = len(mfccs)
    with tf.Graph().as_default(), tfv1.Session() as session:
        batch = Batch(
            names=tf.fill([rows], ''),
            features=tf.constant(features),
            feature_lengths=tf.constant(lengths),
            labels=tf.ones([rows, 1], tf.int32),
            label_lengths=tf.ones([rows], tf.int32),
            weights=tf.ones([rows]),
            indices=tf.range(rows),
            audio_seconds=tf.ones([rows]),
            wait_seconds=tf.constant(0.0),
            number=tf.constant(0, tf.int64),
        )
        tower = make_tower_fn(model.config, ALPHABET.size + 1, training=False, keep_logits=True)(batch)
        log_probabilities = tf.nn.log_softmax(tower.per_sample['logits'])
        CheckpointStore(model.config.checkpoints, geometry(model.config, ALPHABET)).restore_for_evaluation(session)
        return valid(session.run(log_probabilities).transpose(1, 0, 2), lengths)


def one_shot(model: Model) -> list[Array]:
    logits = [compute_logits(model.config, ALPHABET, samples) for samples in model.utterances]
    return [values - np.log(np.exp(values).sum(axis=1, keepdims=True)) for values in logits]


def opened(path: Callable[[Model], Path], piece: int) -> Callable[[Model], list[Array]]:
    """A file in its runtime, which hands over `N_STEPS` frames at a time; fed `piece` samples at a time, 0: all."""

    def run(model: Model) -> list[Array]:
        with open_model(str(path(model))) as runtime:
            results = []
            for samples in model.utterances:
                stream = runtime.stream()
                parts = (
                    [samples[start : start + piece] for start in range(0, len(samples), piece)] if piece else [samples]
                )
                results.append(np.concatenate([*map(stream.feed, parts), stream.finish()]))
            return results

    return run


def frozen_batch(model: Model) -> list[Array]:
    """`--export_batch_size 0`: all utterances at once, all frames at once."""
    graph = FrozenGraph(model.dynamic)
    windows = [context_windows(mfccs) for mfccs in model.mfccs()]
    lengths = np.array([len(frames) for frames in windows], np.int32)
    node = np.full([len(windows), lengths.max() + 3, *windows[0].shape[1:]], 9, np.float32)
    for row, frames in zip(node, windows, strict=True):
        row[: len(frames)] = frames
    zeros = np.zeros([len(windows), model.config.model.n_hidden], np.float32)
    feed = {'input_node': node, 'input_lengths': lengths, 'previous_state_c': zeros, 'previous_state_h': zeros}
    probabilities = graph.run(['logits'], feed)[0].transpose(1, 0, 2)
    return valid(np.log(np.maximum(probabilities, 1e-37)), lengths)


def saved_model_batch(model: Model) -> list[Array]:
    samples, lengths = padded(model.utterances, filler=np.nan)
    outputs = model.saved_model.call('log_probabilities', samples=samples, lengths=lengths)
    return valid(outputs['log_probabilities'], outputs['frames'])


def saved_model_alone(model: Model) -> list[Array]:
    results = []
    for samples in model.utterances:
        inputs = {'samples': samples[np.newaxis], 'lengths': [len(samples)]}
        results.append(model.saved_model.call('log_probabilities', **inputs)['log_probabilities'][0])
    return results


def onnx_batch(model: Model) -> list[Array]:
    samples, lengths = padded(model.utterances, filler=np.nan)
    return valid(*model.onnx.run(None, {'samples': samples, 'lengths': lengths}))


def onnx_alone(model: Model) -> list[Array]:
    results = []
    for samples in model.utterances:
        inputs = {'samples': samples[np.newaxis], 'lengths': np.array([len(samples)], np.int32)}
        results.append(model.onnx.run(None, inputs)[0][0])
    return results


WAYS: dict[str, Callable[[Model], list[npt.NDArray[np.float32]]]] = {
    'one-shot': one_shot,
    'frozen graph': opened(lambda model: model.frozen, 0),
    'frozen graph, stream': opened(lambda model: model.frozen, 1000),
    'frozen graph of any batch': frozen_batch,
    'frozen graph of any length': opened(lambda model: model.dynamic, 0),
    'TFLite': opened(lambda model: model.tflite, 0),
    'TFLite, stream': opened(lambda model: model.tflite, 1000),
    'SavedModel, batch': saved_model_batch,
    'SavedModel, alone': saved_model_alone,
    'SavedModel, stream': opened(lambda model: model.others / 'model', 1000),
    'ONNX, batch': onnx_batch,
    'ONNX, alone': onnx_alone,
    'ONNX, stream': opened(lambda model: model.others / 'output_graph.onnx', 1000),
    'ONNX acoustic model': opened(lambda model: model.others / 'output_graph.acoustic.onnx', 0),
}


@pytest.mark.parametrize('way', WAYS)
def test_log_probabilities_are_those_of_the_training_graph(way: str, model: Model, expected: list[Array]) -> None:
    results = WAYS[way](model)
    assert len(results) == len(expected) == len(model.utterances)
    for result, values in zip(results, expected, strict=True):
        assert result.shape == values.shape
        assert np.ptp(values) > 1
        np.testing.assert_allclose(np.maximum(result, LEAST), np.maximum(values, LEAST), rtol=0, atol=1e-3)
