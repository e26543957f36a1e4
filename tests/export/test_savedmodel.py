"""The SavedModel: its folders, its signatures, and that a batch or a stream gives what each utterance gives alone."""

from __future__ import annotations

import dataclasses
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from deepspeech_training.config import FEATURE_BACKENDS, Config, ExportConfig, FeatureConfig, ModelConfig
from deepspeech_training.decoding import make_decoder
from deepspeech_training.errors import CheckpointError, ExportError
from deepspeech_training.export.formats import export_model
from deepspeech_training.export.savedmodel import savedmodel_version
from deepspeech_training.text.alphabet import Alphabet
from tests.export.conftest import write_random_checkpoint
from tests.export.saved_model import Array, SavedModel, padded, valid

PROGRAM = """
import sys
import numpy as np
import tensorflow as tf

signatures = tf.saved_model.load(sys.argv[1]).signatures
inputs = {name: tf.constant(value) for name, value in np.load(sys.argv[2]).items()}
(text,) = signatures['serving_default'](**inputs)['transcripts'].numpy()
print(text.decode(), signatures['metadata']()['sample_rate'].numpy())
assert 'deepspeech_training' not in sys.modules
"""


def with_savedmodel(config: Config, **changes: object) -> Config:
    export = dataclasses.replace(config.export, savedmodel=True, **changes)  # type: ignore[arg-type]
    return dataclasses.replace(config, export=export)


def exported(config: Config, alphabet: Alphabet) -> SavedModel:
    names = export_model(with_savedmodel(config), alphabet)
    return SavedModel(Path(names[0]).parent)


@pytest.fixture(scope='module')
def alphabet() -> Alphabet:
    return Alphabet(" abcdefghijklmnopqrstuvwxyz'", 'alphabet.txt')


@pytest.fixture(scope='module', params=[FeatureConfig(backend=backend) for backend in FEATURE_BACKENDS])
def model(request: pytest.FixtureRequest, alphabet: Alphabet, tmp_path_factory: pytest.TempPathFactory) -> SavedModel:
    """A small model, with the features of each backend."""
    return random_model(request.param, alphabet, tmp_path_factory.mktemp('model'))


def random_model(features: FeatureConfig, alphabet: Alphabet, folder: Path) -> SavedModel:
    export = ExportConfig(export_dir=str(folder / 'export'), savedmodel=True)
    config = Config(features=features, model=ModelConfig(n_hidden=12), export=export)
    return exported(write_random_checkpoint(config, alphabet, folder / 'checkpoint'), alphabet)


def sound(length: int, seed: int = 0) -> Array:
    """16-bit noise that comes and goes."""
    noise = np.random.default_rng(seed).normal(scale=0.2, size=length) * np.sin(np.arange(length) / 3000)
    return (np.round(32768 * noise.clip(-1, 0.99)) / 32768).astype(np.float32)


def log_probabilities(model: SavedModel, samples: Array) -> Array:
    """Of one utterance alone."""
    outputs = model.call('log_probabilities', samples=samples[np.newaxis], lengths=[len(samples)])
    assert outputs['log_probabilities'].shape[:2] == (1, outputs['frames'][0])
    return valid(outputs['log_probabilities'], outputs['frames'])[0]


def test_folders_and_signatures(small: Config, alphabet: Alphabet) -> None:
    names = export_model(with_savedmodel(small, model_name='digits'), alphabet)
    folder = Path(small.export.export_dir)
    assert [Path(name).relative_to(folder).as_posix() for name in names[:3]] == [
        'digits/1/saved_model.pb',
        'digits/1/variables/variables.data-00000-of-00001',
        'digits/1/variables/variables.index',
    ]
    assert not (folder / 'output_graph.pb').exists()
    model = SavedModel(folder / 'digits' / '1')
    whole = {'transcribe', 'log_probabilities', 'transcribe_int16', 'log_probabilities_int16'}
    assert set(model.signatures) == {'serving_default', 'stream', 'metadata', *whole}
    assert model.signatures['serving_default'] == model.signatures['transcribe']
    for node in model.definition.graph_def.node:
        assert not node.device, node.name
        assert 'Random' not in node.op, node.name  # nothing of training is left


def test_metadata(small: Config, random_checkpoint: Callable[[Config, Alphabet], Config]) -> None:
    alphabet = Alphabet([' ', 'ё', 'क्ष', '#'])
    config = dataclasses.replace(small, features=FeatureConfig(sample_rate=8000, window_ms=24, step_ms=12))
    config = random_checkpoint(with_savedmodel(config, language='ru', beam_width=77), alphabet)
    values = exported(config, alphabet).call('metadata')
    assert [label.decode() for label in values.pop('alphabet')] == list(alphabet.labels)
    assert {name: value.tolist() for name, value in values.items()} == {
        'version': [6],
        'sample_rate': [8000],
        'feature_win_len': [24],
        'feature_win_step': [12],
        'feature_backend': [b'tensorflow'],
        'beam_width': [77],
        'language': [b'ru'],
    }


def test_versions_are_counted_up(small: Config, alphabet: Alphabet) -> None:
    folder = Path(small.export.export_dir, 'model')
    for name in ('12', 'notes', '9' * 30):
        (folder / name).mkdir(parents=True)
    assert '/model/13/' in export_model(with_savedmodel(small), alphabet)[0]
    assert '/model/14/' in export_model(with_savedmodel(small, remove_export=True), alphabet)[0]
    assert {path.name for path in folder.iterdir()} == {'12', '14', 'notes', '9' * 30}


def test_a_version_that_is_a_number_is_the_folder(small: Config, alphabet: Alphabet) -> None:
    config = with_savedmodel(small, model_version='007')
    assert savedmodel_version(config.export) == 7
    (path, *_) = export_model(config, alphabet)
    before = Path(path).read_bytes()
    assert export_model(config, alphabet)[0] == path
    assert Path(path).read_bytes() == before  # the same checkpoint and flags, the same bytes
    Path(path).write_bytes(b'edited')
    with pytest.raises(ExportError, match=r'model/7/saved_model.pb was not written by an export, or edited since'):
        export_model(config, alphabet)
    assert Path(path).read_bytes() == b'edited'


def test_a_checkpoint_that_does_not_fit_leaves_the_earlier_export(small: Config, alphabet: Alphabet) -> None:
    config = with_savedmodel(small, model_version='1', remove_export=True)
    export_model(config, alphabet)
    before = {path: path.read_bytes() for path in Path(small.export.export_dir).rglob('*') if path.is_file()}
    with pytest.raises(CheckpointError, match=r'28.*29'):
        export_model(config, Alphabet((*alphabet.labels, 'ß'), 'other.txt'))
    assert {path: path.read_bytes() for path in Path(small.export.export_dir).rglob('*') if path.is_file()} == before


def test_a_full_disk_is_told_and_leaves_the_earlier_export(small: Config, alphabet: Alphabet) -> None:
    """Files of the process may not grow beyond some bytes: of the variables first, then of the graph."""
    config = with_savedmodel(small)
    export_model(config, alphabet)
    before = {path: path.read_bytes() for path in Path(small.export.export_dir).rglob('*') if path.is_file()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for most in (1000, 100_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
        try:
            with pytest.raises(ExportError, match=r'cannot write model/2: File too large'):
                export_model(config, alphabet)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert {
            path: path.read_bytes() for path in Path(small.export.export_dir).rglob('*') if path.is_file()
        } == before


def test_a_batch_gives_what_each_utterance_gives(model: SavedModel) -> None:
    utterances = [sound(length, length) for length in (9000, 511, 14000, 512, 0, 6000)]
    batch, lengths = padded(utterances, filler=np.nan)
    outputs = model.call('log_probabilities', samples=batch, lengths=lengths)
    assert outputs['frames'].tolist() == [FeatureConfig().frames(length) for length in lengths]
    assert outputs['log_probabilities'].shape == (6, FeatureConfig().frames(14000), 29)
    for together, samples in zip(valid(outputs['log_probabilities'], outputs['frames']), utterances, strict=True):
        np.testing.assert_allclose(together, log_probabilities(model, samples), rtol=0, atol=1e-4)
    texts = model.call('transcribe', samples=batch, lengths=lengths)['transcripts']
    for text, samples in zip(texts, utterances, strict=True):
        assert text == model.call('transcribe', samples=samples[np.newaxis], lengths=[len(samples)])['transcripts'][0]


def test_lengths_beyond_the_samples_and_no_samples_at_all(model: SavedModel) -> None:
    samples = sound(4000)[np.newaxis]
    assert model.call('log_probabilities', samples=samples, lengths=[10**6])['frames'] == [11]
    for audio, length in ((samples, -5), (samples, 0), (samples[:, :0], 0)):
        outputs = model.call('log_probabilities', samples=audio, lengths=[length])
        assert outputs['frames'] == [0]
        assert outputs['log_probabilities'].shape == (1, 0, 29)
        assert model.call('transcribe', samples=audio, lengths=[length])['transcripts'] == [b'']


def test_integers_give_what_floats_give(model: SavedModel) -> None:
    batch, lengths = padded([sound(5000), sound(3000)])
    integers = np.round(batch * 32768).astype(np.int16)
    for name in ('transcribe', 'log_probabilities'):
        floats = model.call(name, samples=batch, lengths=lengths)
        for key, value in model.call(f'{name}_int16', samples=integers, lengths=lengths).items():
            np.testing.assert_array_equal(value, floats[key], key)


@pytest.mark.parametrize('labels', [" abcdefghijklmnopqrstuvwxyz'", ['ё', 'क्ष', '你', ' ']])
def test_transcripts_are_the_trainers(
    labels: str | list[str], small: Config, random_checkpoint: Callable[[Config, Alphabet], Config]
) -> None:
    alphabet = Alphabet(labels)
    model = exported(random_checkpoint(with_savedmodel(small, beam_width=30), alphabet), alphabet)
    samples = sound(20000)
    decoder = make_decoder(alphabet, 30)
    expected = decoder.decode(log_probabilities(model, samples))
    decoder.close()
    outputs = model.call('transcribe', samples=samples[np.newaxis], lengths=[len(samples)])
    assert [text.decode() for text in outputs['transcripts']] == [expected]
    assert len(expected) > 3
    assert outputs['scores'] < 0


def test_streams_give_what_the_whole_gives(model: SavedModel) -> None:
    """Two at once, in pieces of any length, which begin and end at different times."""
    random = np.random.default_rng(5)
    utterances = [sound(length, length) for length in (16000, 7000, 400, 9000)]
    results = stream(model, utterances, lambda: int(random.integers(0, 2500)))
    for result, samples in zip(results, utterances, strict=True):
        np.testing.assert_allclose(result, log_probabilities(model, samples), rtol=0, atol=1e-4)


def test_streams_where_steps_are_longer_than_windows(alphabet: Alphabet, tmp_path: Path) -> None:
    features = FeatureConfig(window_ms=20, step_ms=30, backend='python_speech_features')
    model = random_model(features, alphabet, tmp_path)
    samples = sound(12000)
    for result in stream(model, [samples, samples[:5000]], lambda: 399)[:1]:
        assert len(result) == features.frames(12000)
        np.testing.assert_allclose(result, log_probabilities(model, samples), rtol=0, atol=1e-4)


def test_a_stream_answers_as_soon_as_it_can(model: SavedModel) -> None:
    state = model.zero_state(1)
    answered = 0
    for heard in range(320, 6401, 320):
        outputs = model.call('stream', samples=sound(320)[np.newaxis], lengths=[320], last=[False], **state)
        state = {name: outputs[f'new_{name}'] for name in state}
        answered += int(outputs['frames'][0])
        assert answered == max(0, FeatureConfig().frames(heard) - 9)


def stream(model: SavedModel, utterances: list[Array], piece: Callable[[], int]) -> list[Array]:
    """Log-probabilities of `utterances`, of which all but the first share one row, one after the other."""
    queues = [[0], list(range(1, len(utterances)))]
    results: list[list[npt.NDArray[np.float32]]] = [[] for _ in utterances]
    state, heard = model.zero_state(2), [0, 0]
    while any(queues):
        current = [queue[0] if queue else None for queue in queues]
        pieces = [
            np.zeros(0, np.float32) if number is None else utterances[number][start : start + piece()]
            for number, start in zip(current, heard, strict=True)
        ]
        heard = [start + len(samples) for start, samples in zip(heard, pieces, strict=True)]
        last = [
            number is not None and start == len(utterances[number])
            for number, start in zip(current, heard, strict=True)
        ]
        samples, lengths = padded(pieces, filler=np.nan)
        outputs = model.call('stream', samples=samples, lengths=lengths, last=last, **state)
        state = {name: outputs[f'new_{name}'] for name in state}
        for row, number in enumerate(current):
            if number is not None:
                results[number].append(valid(outputs['log_probabilities'], outputs['frames'])[row])
            if last[row]:
                queues[row].pop(0)
                heard[row] = 0
    return [np.concatenate(result) for result in results]


@pytest.mark.slow
def test_without_the_package(small: Config, alphabet: Alphabet, tmp_path: Path) -> None:
    """By `tf.saved_model.load` and `saved_model_cli`, in programs that know nothing of the trainer."""
    folder = Path(export_model(with_savedmodel(small), alphabet)[0]).parent
    samples = sound(12000)[np.newaxis]
    lengths = np.array([12000], np.int32)
    expected = SavedModel(folder).call('transcribe', samples=samples, lengths=lengths)['transcripts'][0].decode()
    inputs = str(tmp_path / 'inputs.npz')
    np.savez(inputs, samples=samples, lengths=lengths)
    program = subprocess.run(
        [sys.executable, '-c', PROGRAM, str(folder), inputs], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert program.stdout == f'{expected} [16000]\n', program.stderr
    client = subprocess.run(
        [
            *(str(Path(sys.executable).parent / 'saved_model_cli'), 'run', '--dir', str(folder)),
            *('--tag_set', tf.saved_model.SERVING, '--signature_def', 'serving_default'),
            *('--inputs', f'samples={inputs}[samples];lengths={inputs}[lengths]'),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert f"Result for output key transcripts:\n[b'{expected}']\n" in client.stdout, client.stderr
