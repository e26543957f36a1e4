"""The exported graph: DeepSpeech's nodes, DeepSpeech's numbers, the trainer's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from deepspeech_training.config import Config, ExportConfig, FeatureConfig, ModelConfig
from deepspeech_training.errors import CheckpointError, ExportError, FlagError
from deepspeech_training.export.formats import export_model
from deepspeech_training.export.graphdef import missing_operations
from deepspeech_training.model.acoustic import create_model
from deepspeech_training.text.alphabet import Alphabet
from tests.export.frozen_graph import FrozenGraph, context_windows

tfv1 = tf.compat.v1

INTERFACE = (
    *('input_samples', 'input_node', 'input_lengths', 'previous_state_c', 'previous_state_h'),
    *('mfccs', 'logits', 'new_state_c', 'new_state_h'),
    *('metadata_version', 'metadata_sample_rate', 'metadata_feature_win_len', 'metadata_feature_win_step'),
    *('metadata_beam_width', 'metadata_alphabet', 'metadata_language'),
)
EXPECTED_OUTPUTS = ['logits', 'new_state_c', 'new_state_h']


def exported(config: Config, alphabet: Alphabet, **changes: Any) -> FrozenGraph:
    config = dataclasses.replace(config, export=dataclasses.replace(config.export, **changes))
    return FrozenGraph(export_model(config, alphabet)[0])


def trainers_probabilities(config: Config, n_output: int, mfccs: np.ndarray) -> np.ndarray:
    """`[frames, n_output]` from the training graph with the checkpoint's weights."""
    with tf.Graph().as_default(), tfv1.Session() as session:
        features = tf.constant(mfccs[np.newaxis])
        output = create_model(features, tf.constant([len(mfccs)]), config.model, n_output, training=False, lstm='block')
        tfv1.train.Saver().restore(session, str(Path(config.checkpoints.load_dir) / 'train-1'))
        result: np.ndarray = session.run(tf.nn.softmax(output.logits))[:, 0]
        return result


def serialized(labels: dict[int, str]) -> bytes:
    """DeepSpeech's serialization of an alphabet, written out here on its own."""
    content = len(labels).to_bytes(2, 'little')
    for number, label in labels.items():
        text = label.encode()
        content += number.to_bytes(2, 'little') + len(text).to_bytes(2, 'little') + text
    return content


def alphabet_entries(content: bytes) -> dict[int, str]:
    """Reads `metadata_alphabet` as the client does."""
    entries, at = {}, 2
    while at < len(content):
        number, length = (int.from_bytes(content[at + shift : at + shift + 2], 'little') for shift in (0, 2))
        entries[number] = content[at + 4 : at + 4 + length].decode()
        at += 4 + length
    assert len(entries) == int.from_bytes(content[:2], 'little')
    return entries


def test_nodes_are_those_of_deepspeechs_export(resume_check: Config, alphabet: Alphabet, deepspeech_data: Path) -> None:
    ours = exported(resume_check, alphabet)
    theirs = FrozenGraph(deepspeech_data / 'deepspeech-0.9.3/resume-check/output_graph.pb')
    weights = [node.name for node in theirs.definition.node if node.name.endswith(('/weights', '/kernel', '/bias'))]
    assert len(weights) == 12
    for name in (*INTERFACE, *weights):
        assert ours.tensor(name).dtype == theirs.tensor(name).dtype, name
        assert ours.tensor(name).shape.as_list() == theirs.tensor(name).shape.as_list(), name
        assert ours.tensor(name).op.type == theirs.tensor(name).op.type, name
    for name in weights:
        np.testing.assert_array_equal(ours.run([name], {})[0], theirs.run([name], {})[0], name)
    for name in INTERFACE[9:14]:
        assert ours.value(name) == theirs.value(name), name
    alphabets = [alphabet_entries(graph.value('metadata_alphabet')) for graph in (ours, theirs)]
    assert alphabets[0] == alphabets[1]


def test_numbers_are_those_of_deepspeechs_export(
    resume_check: Config, alphabet: Alphabet, deepspeech_data: Path
) -> None:
    ours = exported(resume_check, alphabet)
    theirs = FrozenGraph(deepspeech_data / 'deepspeech-0.9.3/resume-check/output_graph.pb')
    random = np.random.default_rng(3)
    for length in (0, 1, 9, 16):
        feed = {
            'input_node': random.normal(scale=5, size=[1, 16, 19, 26]),
            'input_lengths': [length],
            'previous_state_c': random.normal(size=[1, 64]),
            'previous_state_h': random.normal(size=[1, 64]),
        }
        for name, mine, other in zip(
            EXPECTED_OUTPUTS, ours.run(EXPECTED_OUTPUTS, feed), theirs.run(EXPECTED_OUTPUTS, feed), strict=True
        ):
            np.testing.assert_allclose(mine, other, rtol=0, atol=1e-5, err_msg=f'{name}, length {length}')
    samples = {'input_samples': random.uniform(-0.5, 0.5, size=[512])}
    np.testing.assert_allclose(ours.run(['mfccs'], samples)[0], theirs.run(['mfccs'], samples)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize('n_steps', [1, 7, 16, 4000])
def test_chunks_give_deepspeechs_logits(
    n_steps: int, resume_check: Config, alphabet: Alphabet, deepspeech_data: Path
) -> None:
    figures = np.load(deepspeech_data / 'deepspeech-0.9.3/resume-check/features_logits.npz')
    graph = exported(resume_check, alphabet, n_steps=n_steps)
    names = [name.removeprefix('mfcc/') for name in figures.files if name.startswith('mfcc/')]
    assert names
    for name in names[:3]:
        logits = figures[f'logits/{name}'].astype(np.float64)
        softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        got = graph.probabilities(figures[f'mfcc/{name}'])
        np.testing.assert_allclose(got, softmax, rtol=0, atol=1e-4, err_msg=name)


def test_windows_of_samples_give_deepspeechs_mfccs(
    resume_check: Config, alphabet: Alphabet, deepspeech_data: Path
) -> None:
    folder = deepspeech_data / 'deepspeech-0.9.3'
    expected = np.load(folder / 'resume-check/features_logits.npz')
    graph = exported(resume_check, alphabet)
    name = 'LDC93S1_pcms16le_1_16000.wav'
    (key,) = (key for key in expected.files if key.startswith('mfcc/') and 'LDC93S1' in key)
    samples, rate = soundfile.read(folder / 'ldc93s1' / name, dtype='float32')
    assert rate == 16000
    for frame in range(0, len(expected[key]), 10):
        window = samples[320 * frame :][:512]
        got = graph.run(['mfccs'], {'input_samples': window})[0]
        np.testing.assert_allclose(got[0], expected[key][frame], rtol=0, atol=1e-4)


@pytest.mark.parametrize('layer_norm', [False, True])
def test_chunks_equal_the_training_graph(
    layer_norm: bool, alphabet: Alphabet, small: Config, random_checkpoint: Callable[[Config, Alphabet], Config]
) -> None:
    config = random_checkpoint(
        dataclasses.replace(small, model=ModelConfig(n_hidden=20, layer_norm=layer_norm)), alphabet
    )
    mfccs = np.random.default_rng(4).normal(scale=3, size=[41, 26]).astype(np.float32)
    graph = exported(config, alphabet)
    expected = trainers_probabilities(config, alphabet.size + 1, mfccs)
    assert expected.max(axis=1).min() > 1.5 / expected.shape[1]  # not all alike
    np.testing.assert_allclose(graph.probabilities(mfccs), expected, rtol=0, atol=1e-5)
    assert missing_operations(graph.definition) == []


def test_batch_size_0_takes_any_batch_and_length(
    small: Config, alphabet: Alphabet, caplog: pytest.LogCaptureFixture
) -> None:
    graph = exported(small, alphabet, batch_size=0)
    assert 'the deepspeech client runs models of batch size 1 only' in caplog.text
    assert graph.tensor('input_node').shape.as_list() == [None, None, 19, 26]
    mfccs = np.random.default_rng(5).normal(scale=3, size=[3, 33, 26]).astype(np.float32)
    lengths = [33, 12, 1]
    state = np.zeros([3, small.model.n_hidden])
    feed = {
        'input_node': [context_windows(row) for row in mfccs],
        'input_lengths': lengths,
        'previous_state_c': state,
        'previous_state_h': state,
    }
    probabilities, c, _ = graph.run(EXPECTED_OUTPUTS, feed)
    assert probabilities.shape == (33, 3, alphabet.size + 1)
    assert c.shape == (3, small.model.n_hidden)
    single = exported(small, alphabet)
    for number, length in enumerate(lengths):
        # Windows reach beyond the end of the shorter utterances, to frames that are no part of them.
        alone = FrozenGraph.probabilities(single, mfccs[number])[:length]
        np.testing.assert_allclose(probabilities[:length, number], alone, rtol=0, atol=1e-5)


def test_metadata_are_those_of_the_flags(small: Config, alphabet: Alphabet) -> None:
    config = dataclasses.replace(
        small,
        features=FeatureConfig(sample_rate=8000, window_ms=24, step_ms=12),
        export=dataclasses.replace(small.export, beam_width=123, language='de-Latn-AT', n_steps=5),
    )
    graph = exported(config, alphabet)
    assert graph.value('metadata_version') == 6
    assert graph.value('metadata_sample_rate') == 8000
    assert graph.value('metadata_feature_win_len') == 24
    assert graph.value('metadata_feature_win_step') == 12
    assert graph.value('metadata_beam_width') == 123
    assert graph.value('metadata_language') == b'de-Latn-AT'
    assert graph.value('metadata_feature_backend') == b'tensorflow'
    assert graph.tensor('input_samples').shape.as_list() == [192]
    assert graph.tensor('input_node').shape.as_list() == [1, 5, 19, 26]


@pytest.mark.parametrize('labels', [' абвгдеёжз', ' 你好吗', ['क', 'क्ष', ' ', '#']])
def test_alphabets_of_other_languages(
    labels: list[str], small: Config, random_checkpoint: Callable[[Config, Alphabet], Config]
) -> None:
    alphabet = Alphabet(labels)
    graph = exported(random_checkpoint(small, alphabet), alphabet)
    expected = dict(enumerate(labels))
    assert graph.value('metadata_alphabet') == serialized(expected)
    assert alphabet_entries(serialized(expected)) == expected
    assert graph.tensor('logits').shape.as_list() == [16, 1, len(labels) + 1]


def test_nothing_is_left_that_an_older_runtime_does_not_know(small: Config, alphabet: Alphabet) -> None:
    for backend in ('tensorflow', 'python_speech_features'):
        config = dataclasses.replace(small, features=FeatureConfig(backend=backend))
        definition = exported(config, alphabet).definition
        assert missing_operations(definition) == []
        for node in definition.node:
            assert not node.device, node.name
            assert not [key for key in node.attr if key.startswith('_')], node.name
        assert not any('grad_a' in node.attr for node in definition.node)  # newer than that runtime
        assert not definition.library.function


def test_the_same_checkpoint_gives_the_same_bytes(small: Config, alphabet: Alphabet) -> None:
    first = Path(export_model(small, alphabet)[0]).read_bytes()
    assert Path(export_model(small, alphabet)[0]).read_bytes() == first


def test_files(small: Config, alphabet: Alphabet, tmp_path: Path) -> None:
    config = dataclasses.replace(
        small,
        export=ExportConfig(
            export_dir=str(tmp_path / 'new' / 'folder'),
            file_name='digits.pb',
            author_id='ann',
            model_name='digits',
            model_version='1.2.3',
        ),
    )
    assert export_model(config, alphabet)[0] == str(tmp_path / 'new' / 'folder' / 'digits.pb')
    names = {path.name for path in (tmp_path / 'new' / 'folder').iterdir()}
    assert names == {'digits.pb', 'ann_digits_1.2.3.md', '.deepspeech_export.json'}
    card = (tmp_path / 'new' / 'folder' / 'ann_digits_1.2.3.md').read_text()
    assert 'author: ann\n' in card
    assert 'runtime: tensorflow\n' in card


def test_a_checkpoint_that_does_not_fit_leaves_the_earlier_export(
    small: Config, alphabet: Alphabet, tmp_path: Path
) -> None:
    path = Path(export_model(small, alphabet)[0])
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    again = dataclasses.replace(small.export, remove_export=True)
    for config, labels, message in (
        (dataclasses.replace(small, model=ModelConfig(n_hidden=13), export=again), alphabet.labels, '12.*13'),
        (dataclasses.replace(small, export=again), (*alphabet.labels, 'ß'), '28.*29'),
    ):
        with pytest.raises(CheckpointError, match=message):
            export_model(config, Alphabet(labels, 'other.txt'))[0]
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


def test_bad_language_and_bad_folder_are_errors(small: Config, alphabet: Alphabet, tmp_path: Path) -> None:
    with pytest.raises(FlagError, match='did you mean es-CO'):
        exported(small, alphabet, language='es_CO')
    (tmp_path / 'file').write_text('mine')
    with pytest.raises(ExportError, match='is not a directory'):
        exported(small, alphabet, export_dir=str(tmp_path / 'file' / 'below'))
    assert (tmp_path / 'file').read_text() == 'mine'
