"""Data sets in every format, here and elsewhere: the same training, step by step."""

from __future__ import annotations

import json
import logging
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import fsspec
import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training import cli, log
from deepspeech_training.checkpoints import LAST, find_checkpoint
from deepspeech_training.config import Config, FeatureConfig
from deepspeech_training.data import contents
from deepspeech_training.data.augmentation.noise import NoiseSource
from deepspeech_training.data.formats import read_data_set, write_data_set
from tests.helpers import run_training, scalars, transcriptions
from tests.toy import toy_config, write_tones

FORMATS = ['csv', 'jsonl', 'sdb', 'tar']
PLACES = [
    ('train.jsonl', ''),
    ('train.sdb', ''),
    ('train-{1..2}.tar', ''),
    ('memory://set/train.csv', ''),
    ('train.tar', 'cache'),
    ('memory://set/train.csv', 'cache'),
    ('memory://set/train.tar', 'cache'),
]


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audio files that were written just now are remembered."""
    monkeypatch.setattr(contents, 'SETTLED_SECONDS', 0.0)


@pytest.fixture(scope='module')
def memory() -> Iterator[None]:
    yield
    fsspec.filesystem('memory').rm('/set', recursive=True)


@pytest.fixture(scope='module')
def base(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Everything that is random, and one thread."""
    config = toy_config(tmp_path_factory.mktemp('sets'), train=7, dev=2, batch_size=2, epochs=2)
    return replace(
        config,
        data=replace(config.data, shuffle_batches=True, shuffle_start=0, augment=('volume[p=0.5,dbfs=-30:-10]',)),
        model=replace(config.model, dropout=(0.3,) * 6),
        parallel=replace(config.parallel, intra_op_threads=1, inter_op_threads=1),
    )


def trained(
    config: Config, folder: Path, train: str, cache: str = ''
) -> tuple[dict[int, float], dict[str, np.ndarray]]:
    """The loss of each step, and all variables at the end."""
    config = replace(
        config,
        data=replace(config.data, train_files=(train,), feature_cache=cache),
        checkpoints=replace(config.checkpoints, load_dir=str(folder), save_dir=str(folder)),
        report=replace(config.report, summary_dir=str(folder / 'curves'), summary_steps=1),
    )
    run_training(config)
    reader = tf.train.load_checkpoint(str(find_checkpoint(str(folder), LAST)))
    values = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    return scalars(folder / 'curves' / 'train', 'step_loss'), values


@pytest.fixture(scope='module')
def expected(base: Config, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[int, float], dict[str, np.ndarray]]:
    return trained(base, tmp_path_factory.mktemp('expected'), base.data.train_files[0])


def put(base: Config, folder: Path, place: str) -> str:
    """The training data at a place; returns what to give to --train_files."""
    samples, _ = read_data_set(base.data.train_files[0])
    if place == 'memory://set/train.csv':
        system = fsspec.filesystem('memory')
        corpus = Path(base.data.train_files[0]).parent
        for path in corpus.iterdir():
            system.pipe(f'/set/{path.name}', path.read_bytes())
        return place
    if place.startswith('memory:'):
        write_data_set(place, samples)
        return place
    if '{' in place:
        write_data_set(str(folder / 'train-1.tar'), samples[:3])
        write_data_set(str(folder / 'train-2.tar'), samples[3:])
    else:
        write_data_set(str(folder / place), samples)
    return str(folder / place)


@pytest.mark.parametrize(('place', 'cache'), PLACES)
@pytest.mark.usefixtures('memory')
def test_the_same_losses_step_by_step(
    base: Config,
    tmp_path: Path,
    place: str,
    cache: str,
    expected: tuple[dict[int, float], dict[str, np.ndarray]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With a feature cache the random numbers are those of the first epoch in the second one, too."""
    config = replace(base, data=replace(base.data, cache_for_epochs=1))
    losses, values = trained(
        config, tmp_path / 'run', put(base, tmp_path, place), str(tmp_path / cache) if cache else ''
    )
    assert len(losses) == 8
    assert losses == expected[0]
    for name, value in values.items():
        np.testing.assert_array_equal(value, expected[1][name], err_msg=name)
    assert bool(list(tmp_path.glob('cache/*/*.features'))) == bool(cache)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize('kind', FORMATS)
def test_noise_of_every_format(tmp_path: Path, base: Config, kind: str) -> None:
    samples, _ = read_data_set(base.data.train_files[0])
    path = str(tmp_path / f'noise.{kind}')
    write_data_set(path, samples)
    noises = [NoiseSource(source, FeatureConfig()) for source in (base.data.train_files[0], path)]
    layers = [noise.layer(50_000, np.random.default_rng(0)) for noise in noises]
    np.testing.assert_array_equal(layers[0], layers[1])


def test_noise_needs_no_transcripts(tmp_path: Path) -> None:
    write_tones(tmp_path / 'a.wav', 'abc')
    with tarfile.open(tmp_path / 'noise.tar', 'w') as archive:
        archive.add(tmp_path / 'a.wav', 'a.wav')
    (tmp_path / 'noise.jsonl').write_text('{"audio_filepath": "a.wav"}\n')
    for name in ('noise.tar', 'noise.jsonl'):
        assert len(NoiseSource(str(tmp_path / name), FeatureConfig()).layer(100, np.random.default_rng(0))) == 100


@pytest.mark.parametrize('place', ['test.jsonl', 'test.sdb', 'test.tar'])
def test_reports_name_the_samples(tmp_path: Path, place: str) -> None:
    config = toy_config(tmp_path, train=2, test=2, epochs=1)
    path = str(tmp_path / place)
    write_data_set(path, read_data_set(config.data.test_files[0])[0])
    config = replace(config, data=replace(config.data, test_files=(path,)))
    data_sets, alphabet = run_training(config)
    names = {transcription.wav_filename for transcription in transcriptions(config, data_sets, alphabet)}
    assert names == {sample.path for sample in data_sets.test[path]}


class TestWhatIsWrong:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'caches'))
        write_tones(tmp_path / 'a.wav', 'abcabc')
        (tmp_path / 'alphabet.txt').write_text(' \na\nb\nc\n')
        return tmp_path

    def run(self, capsys: pytest.CaptureFixture[str], path: str, *more: str) -> tuple[int, str]:
        status = cli.main(
            [
                *('--train_files', path, '--alphabet_config_path', 'alphabet.txt', '--checkpoint_dir', 'ck'),
                *('--epochs', '1', '--summary_dir', 'curves', '--n_hidden', '4', '--cpu_towers', '1', *more),
            ]
        )
        return status, capsys.readouterr().err

    def lines(self, *rows: object) -> str:
        Path('set.jsonl').write_text(''.join(f'{json.dumps(row)}\n' for row in rows))
        return 'set.jsonl'

    def test_each_line_is_named(self, capsys: pytest.CaptureFixture[str]) -> None:
        path = self.lines(
            {'audio_filepath': 'a.wav', 'text': 'abc'},
            {'audio_filepath': 'b.wav', 'text': 'abc'},
            {'audio_filepath': 'a.wav', 'text': 'xyz'},
            {'audio_filepath': 'a.wav'},
            {'audio_filepath': 'a.wav', 'text': 'a', 'offset': 5, 'duration': 1},
        )
        status, told = self.run(capsys, path)
        assert status == 2
        assert 'set.jsonl:2: b.wav: the audio file does not exist' in told
        assert "U+0078 'x'" in told or "'x'" in told
        assert 'first in set.jsonl:3' in told
        assert 'set.jsonl:4: lacks text' in told
        assert 'set.jsonl:5: a.wav [5.0 s + 1.0 s]: the recording has 0.72 s' in told
        assert '4 of 5 rows cannot be used' in told

    def test_they_can_be_left_out(self, capsys: pytest.CaptureFixture[str]) -> None:
        path = self.lines({'audio_filepath': 'a.wav', 'text': 'abc'}, {'audio_filepath': 'b.wav', 'text': 'abc'})
        status, told = self.run(capsys, path, '--on_bad_sample', 'skip')
        assert status == 0, told
        assert 'set.jsonl,2,b.wav,' in Path('ck/skipped_samples.csv').read_text()

    def test_durations_of_files_are_compared(self, capsys: pytest.CaptureFixture[str]) -> None:
        path = self.lines(
            {'audio_filepath': 'a.wav', 'text': 'abc', 'duration': 0.72},
            {'audio_filepath': 'a.wav', 'text': 'abc', 'duration': 0.3},
            {'audio_filepath': 'a.wav', 'text': 'a', 'duration': 0.3, 'offset': 0},
        )
        status, told = self.run(capsys, path)
        assert status == 0, told
        assert '1 audio files are not as long as their duration says' in told
        assert 'a.wav: 0.72 s, and 0.3 s by set.jsonl:2' in told

    def test_entries_are_named(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path('bad.wav').write_bytes(b'RIFFno')
        with tarfile.open('set.tar', 'w') as archive:
            for name, key in (('a.wav', 'one.wav'), ('bad.wav', 'two.wav'), ('alphabet.txt', 'two.txt')):
                archive.add(name, key)
        status, told = self.run(capsys, 'set.tar')
        assert status == 2
        assert 'set.tar: one: has no transcript' in told
        assert 'set.tar: two.wav: cannot be read as audio' in told

    @pytest.mark.parametrize(
        ('path', 'message'),
        [
            ('memory://nowhere/a.csv', 'memory://nowhere/a.csv: cannot be read: No such file or directory'),
            ('s3://bucket/a.csv', 's3:// needs the package s3fs: pip install s3fs'),
            ('gs://bucket/{0..1}.tar', 'gs:// needs the package gcsfs: pip install gcsfs'),
            ('nonsense://bucket/a.csv', 'fsspec knows no file system for nonsense://'),
        ],
    )
    def test_places_that_are_not_there(self, capsys: pytest.CaptureFixture[str], path: str, message: str) -> None:
        status, told = self.run(capsys, path)
        assert status == 2
        assert message in told

    def test_objects_that_are_not_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path('set.csv').write_text(
            'wav_filename,wav_filesize,transcript\nmemory://nowhere/a.wav,5,abc\nmemory://other/b.wav,,abc\n'
        )
        status, told = self.run(capsys, 'set.csv')
        assert status == 2
        assert 'set.csv:2: memory://nowhere/a.wav: the audio file does not exist' in told
        assert 'set.csv:3: memory://other/b.wav: the audio file does not exist' in told


def test_what_was_looked_at_is_remembered(tmp_path: Path, base: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of containers: a second check reads none of the audio."""
    from deepspeech_training.data import probing
    from deepspeech_training.data.checks import check_data
    from deepspeech_training.text.alphabet import Alphabet

    alphabet = Alphabet.from_file(base.data.alphabet_config_path)
    samples, _ = read_data_set(base.data.train_files[0])
    for name in ('set.sdb', 'set.tar', 'set.jsonl'):
        write_data_set(str(tmp_path / name), samples)
    names = tuple(str(tmp_path / name) for name in ('set.sdb', 'set.tar', 'set.jsonl'))
    data = replace(base.data, train_files=names, dev_files=(), augment=())
    save_dir = str(tmp_path / 'ck')
    first = check_data(data, base.features, alphabet, save_dir=save_dir, show_progressbar=False)
    monkeypatch.setattr(probing, 'audio_info', None)
    assert check_data(data, base.features, alphabet, save_dir=save_dir, show_progressbar=False) == first
    assert len(first.train) == 21
    log.setup(1)
