"""The feature cache by itself and in the input pipeline: what it gives is what would have been computed."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf
import tensorflow as tf

from deepspeech_training.audio.reading import read_audio
from deepspeech_training.audio.reference import reference_mfccs
from deepspeech_training.config import DataConfig, FeatureConfig
from deepspeech_training.data import contents, feature_cache
from deepspeech_training.data.batch import Batch
from deepspeech_training.data.feature_cache import (
    FEATURE_VERSION,
    FeatureCache,
    epoch_of_random_numbers,
    feature_settings,
    settings_folder,
)
from deepspeech_training.data.manifest import Sample
from deepspeech_training.data.pipeline import InputPipeline
from deepspeech_training.errors import DataError
from deepspeech_training.model.features import compute_mfccs
from deepspeech_training.text.alphabet import Alphabet

ALPHABET = Alphabet([' ', 'a', 'b', 'c'])
BACKENDS = ['tensorflow', 'python_speech_features']
SETTINGS = {'some': 'settings'}
FORMATS = [('wav', 16000, 1), ('wav', 8000, 1), ('flac', 44100, 2), ('ogg', 22050, 1), ('mp3', 16000, 1)]


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audio files that were written just now are remembered."""
    monkeypatch.setattr(contents, 'SETTLED_SECONDS', 0.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / 'cache'


@pytest.fixture
def samples(tmp_path: Path) -> list[Sample]:
    """One file of each format."""
    random = np.random.default_rng(1)
    found = []
    for number, (suffix, rate, channels) in enumerate(FORMATS):
        path = tmp_path / f'{number}.{suffix}'
        sf.write(path, random.uniform(-0.5, 0.5, [rate // 4 + 100 * number, channels]), rate)
        found.append(Sample(str(path), path.stat().st_size, 'ab c'[: number + 1].strip(), 'some.csv', number + 2))
    time.sleep(0.02)  # a tick of the file system's clock
    return found


def key(number: int) -> bytes:
    return number.to_bytes(32, 'little')


def mfccs_of(number: int, frames: int = 7) -> np.ndarray:
    return np.random.default_rng(number).standard_normal([frames, 26]).astype(np.float32)


def cache_of(folder: Path, settings: dict[str, str] | None = None) -> FeatureCache:
    return FeatureCache(str(folder), settings or SETTINGS)


def fill(folder: Path, numbers: Sequence[int]) -> FeatureCache:
    cache = cache_of(folder)
    for number in numbers:
        cache.store(key(number), mfccs_of(number), 1000 + number)
    return cache


def assert_has(cache: FeatureCache, numbers: Sequence[int]) -> None:
    for number in numbers:
        found = cache.find_content(key(number))
        assert found is not None, number
        np.testing.assert_array_equal(found.mfccs, mfccs_of(number))
        assert found.samples == 1000 + number


def file_of(folder: Path, suffix: str) -> Path:
    (path,) = folder.glob(f'*/*{suffix}')
    return path


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def batches_of(
    samples: Sequence[Sample],
    folder: Path | None,
    features: FeatureConfig,
    alphabet: Alphabet = ALPHABET,
    size: int = 2,
) -> tuple[list[Batch], FeatureCache | None]:
    """One pass over all samples, in batches of `size`, and the cache it went through."""
    tf.compat.v1.disable_v2_behavior()
    mfccs = partial(compute_mfccs, features=features) if features.backend == 'tensorflow' else None
    data = DataConfig(feature_cache=str(folder or ''))
    found = []
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        pipeline = InputPipeline(samples, alphabet, features, data, towers=1, mfccs=mfccs)
        batch = pipeline.next_batch()
        pipeline.start(session, np.arange(len(samples)), size)
        try:
            while True:
                found.append(session.run(batch))
        except tf.errors.OutOfRangeError:
            pass
        except tf.errors.OpError as error:
            pipeline.reraise(error)
    return found, pipeline.cache


def assert_same(batches: Sequence[Batch], others: Sequence[Batch], but: Sequence[str] = ()) -> None:
    for one, other in zip(batches, others, strict=True):
        for name in set(Batch._fields) - {'wait_seconds', *but}:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def counts(cache: FeatureCache | None) -> tuple[int, int]:
    assert cache is not None
    return cache.found, cache.stored


@pytest.mark.parametrize('backend', BACKENDS)
def test_batches_are_the_same_bit_by_bit(samples: list[Sample], folder: Path, backend: str) -> None:
    features = FeatureConfig(backend=backend)
    expected, _ = batches_of(samples, None, features)
    for numbers in ((0, 5), (5, 0)):
        batches, cache = batches_of(samples, folder, features)
        assert counts(cache) == numbers
        assert_same(batches, expected)


def test_some_samples_of_a_batch_come_from_the_cache(samples: list[Sample], folder: Path) -> None:
    features = FeatureConfig()
    batches_of([samples[1], samples[4]], folder, features)
    for numbers in ((2, 3), (5, 0)):
        batches, cache = batches_of(samples, folder, features, size=5)
        assert counts(cache) == numbers
        assert_same(batches, batches_of(samples, None, features, size=5)[0])


def test_transcripts_are_never_cached(samples: list[Sample], folder: Path) -> None:
    """Another CSV file and another alphabet: the same features with other labels."""
    features = FeatureConfig()
    batches_of(samples, folder, features)
    others = [replace(sample, transcript='c', csv='other.csv') for sample in samples]
    alphabet = Alphabet(['c', 'd', 'e'])
    batches, cache = batches_of(others, folder, features, alphabet)
    assert counts(cache) == (5, 0)
    expected, _ = batches_of(others, None, features, alphabet)
    assert_same(batches, expected)


def test_other_names_for_the_same_audio(samples: list[Sample], folder: Path, tmp_path: Path) -> None:
    batches, _ = batches_of(samples, folder, FeatureConfig())
    (tmp_path / 'moved').mkdir()
    moved = []
    for sample in samples:
        path = tmp_path / 'moved' / os.path.basename(sample.path)
        path.write_bytes(Path(sample.path).read_bytes())
        moved.append(replace(sample, path=str(path)))
    others, cache = batches_of(moved, folder, FeatureConfig())
    assert counts(cache) == (5, 0)
    assert_same(others, batches, but=['names'])


@pytest.mark.parametrize('keep_times', [False, True])
def test_changed_audio_is_computed_anew(samples: list[Sample], folder: Path, keep_times: bool) -> None:
    """Of the same size, and even with the same time of change."""
    batches_of(samples, folder, FeatureConfig())
    path = Path(samples[0].path)
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[-400:] = bytes(400)
    path.write_bytes(content)
    if keep_times:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    batches, cache = batches_of(samples, folder, FeatureConfig())
    assert counts(cache) == (4, 1)
    assert_same(batches, batches_of(samples, None, FeatureConfig())[0])


@pytest.mark.parametrize(
    'change',
    [{'window_ms': 25}, {'step_ms': 10}, {'backend': 'python_speech_features'}, {'sample_rate': 8000}],
    ids=str,
)
def test_other_settings_are_other_features(samples: list[Sample], folder: Path, change: dict[str, Any]) -> None:
    batches_of(samples, folder, FeatureConfig())
    features = FeatureConfig(**change)
    batches, cache = batches_of(samples, folder, features)
    assert counts(cache) == (0, 5)
    assert_same(batches, batches_of(samples, None, features)[0])
    assert counts(batches_of(samples, folder, FeatureConfig())[1]) == (5, 0), 'both are kept'


def test_what_else_makes_other_features() -> None:
    settings = feature_settings(FeatureConfig(), '2.21.0')
    others = [
        feature_settings(FeatureConfig(), '2.22.0'),
        feature_settings(FeatureConfig(), '2.21.0', 'pitch, epoch 0'),
        feature_settings(FeatureConfig(), '2.21.0', 'pitch, epoch 1'),
        feature_settings(FeatureConfig(normalize_sample_rate=False), '2.21.0'),
        feature_settings(FeatureConfig(channel=1), '2.21.0'),
        feature_settings(FeatureConfig(channel=2), '2.21.0'),
        {**settings, 'soxr': '9'},
        {**settings, 'feature_version': str(FEATURE_VERSION + 1)},
    ]
    assert len({settings_folder(each) for each in [settings, *others]}) == 9


@pytest.mark.parametrize(
    ('cache', 'epochs', 'expected'),
    [
        ('', 3, [0, 1, 2, 3, 4, 5, 6]),
        ('cache', 0, [0] * 7),
        ('cache', -1, [0] * 7),
        ('cache', 3, [0, 0, 0, 3, 3, 3, 6]),
        ('cache', 1, [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_epochs_whose_random_numbers_are_used(cache: str, epochs: int, expected: list[int]) -> None:
    data = DataConfig(feature_cache=cache, cache_for_epochs=epochs)
    assert [epoch_of_random_numbers(epoch, data) for epoch in range(7)] == expected


def test_bad_audio_is_an_error_as_without_a_cache(samples: list[Sample], folder: Path, tmp_path: Path) -> None:
    batches_of(samples, folder, FeatureConfig())
    for name, content, message in (
        ('empty.wav', b'', 'empty'),
        ('none.wav', b'no audio', 'cannot be read as audio'),
        ('missing.wav', None, 'No such file'),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        for where in (folder, None):
            with pytest.raises(DataError, match=message):
                batches_of([replace(samples[0], path=str(tmp_path / name))], where, FeatureConfig())
    sf.write(samples[0].path, np.zeros(100), 16000)
    with pytest.raises(DataError, match=r'32 ms.*some.csv'):
        batches_of(samples, folder, FeatureConfig())


def test_a_file_that_vanished_is_named_though_its_features_are_known(samples: list[Sample], folder: Path) -> None:
    """A data set that lost files is not trained on by accident; without its files it would not be found whole again."""
    batches_of(samples, folder, FeatureConfig())
    Path(samples[0].path).unlink()
    with pytest.raises(DataError, match='No such file'):
        batches_of(samples, folder, FeatureConfig())


def test_it_is_kept_and_found_again(folder: Path) -> None:
    assert_has(fill(folder, range(30)), range(30))
    assert_has(cache_of(folder), range(30))
    assert cache_of(folder).find_content(key(30)) is None
    assert cache_of(folder, {'other': 'settings'}).find_content(key(0)) is None


def test_backups_leave_out_the_cache_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    fill(folder, range(2))
    assert (folder / 'CACHEDIR.TAG').read_bytes().startswith(b'Signature: 8a477f597d28d172789f06886806bc55')
    (tmp_path / 'checkpoints').mkdir()
    (tmp_path / 'checkpoints' / 'checkpoint').touch()
    assert_has(fill(tmp_path / 'checkpoints', range(2)), range(2))
    assert not (tmp_path / 'checkpoints' / 'CACHEDIR.TAG').exists()


def test_nothing_is_kept_twice(folder: Path) -> None:
    fill(folder, range(5))
    size = file_of(folder, '.features').stat().st_size
    fill(folder, range(5))
    assert file_of(folder, '.features').stat().st_size == size == 5 * 7 * 26 * 4


def test_runs_side_by_side_find_what_each_other_computed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_cache, 'REFRESH_SECONDS', 0.0)
    one, other = cache_of(folder), cache_of(folder)
    for number in range(6):
        (one, other)[number % 2].store(key(number), mfccs_of(number), 1000 + number)
        assert_has((other, one)[number % 2], range(number + 1))
    assert len(list(folder.glob('*/*.features'))) == 2
    assert_has(cache_of(folder), range(6))


def test_runs_one_after_the_other_share_a_file(folder: Path) -> None:
    for start in range(0, 20, 5):
        fill(folder, range(start, start + 5))
    assert file_of(folder, '.features').stat().st_size == 20 * 7 * 26 * 4
    assert_has(cache_of(folder), range(20))


def test_many_files_are_not_open_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_cache, 'OPEN_FILES', 3)
    writers = []
    for number in range(12):
        writers.append(fill(folder, [number]))
    writers.clear()
    assert len(list(folder.glob('*/*.features'))) == 12
    before = len(os.listdir('/proc/self/fd'))
    reader = cache_of(folder)
    for _ in range(3):
        assert_has(reader, range(12))
        assert len(os.listdir('/proc/self/fd')) <= before + 3
    del reader
    assert len(os.listdir('/proc/self/fd')) == before


@pytest.mark.parametrize('place', [0, 1000, 20 * 7 * 26 * 4 - 1])
def test_damaged_features_are_never_given(folder: Path, place: int, caplog: pytest.LogCaptureFixture) -> None:
    fill(folder, range(20))
    path = file_of(folder, '.features')
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    bad = place // (7 * 26 * 4)
    cache = cache_of(folder)
    assert cache.find_content(key(bad)) is None
    assert warnings(caplog) == [f'{path}: is damaged: what is wrong in it is computed anew']
    assert_has(cache, [number for number in range(20) if number != bad])
    cache.store(key(bad), mfccs_of(bad), 1000 + bad)
    assert_has(cache, range(20))
    del cache
    caplog.clear()
    assert_has(cache_of(folder), range(20))
    assert not warnings(caplog), 'it is mended'


@pytest.mark.parametrize('running', [False, True], ids=['before', 'while running'])
@pytest.mark.parametrize('frames', [0, 3, 70, 139])
def test_cut_off_features_are_computed_anew(
    folder: Path, frames: int, running: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A mapping of the file would end the process here (SIGBUS)."""
    fill(folder, range(20))
    path = file_of(folder, '.features')
    cache = cache_of(folder)
    os.truncate(path, frames * 26 * 4)
    if not running:
        cache = cache_of(folder)
    whole = frames // 7
    assert_has(cache, range(whole))
    for number in range(whole, 20):
        assert cache.find_content(key(number)) is None
    (warning,) = warnings(caplog)
    assert warning.startswith(f'{path}: is cut off: ')
    for number in range(20):
        cache.store(key(number), mfccs_of(number), 1000 + number)
    assert_has(cache, range(20))
    del cache
    assert_has(cache_of(folder), range(20))


def test_features_that_come_later_than_their_rows(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As on network file systems, where one host sees the files of another."""
    reader = cache_of(folder)
    fill(folder, range(20))
    path = file_of(folder, '.features')
    content = path.read_bytes()
    os.truncate(path, 3 * 7 * 26 * 4)
    reader.refresh()
    assert_has(reader, range(3))
    assert reader.find_content(key(3)) is None
    path.write_bytes(content)
    reader.refresh()
    assert_has(reader, range(20))
    assert not warnings(caplog)


@pytest.mark.parametrize('suffix', ['.index', '.features'])
@pytest.mark.parametrize('content', [b'', b'something else' * 1000], ids=['empty', 'else'])
def test_files_of_other_content(folder: Path, suffix: str, content: bytes) -> None:
    fill(folder, range(20))
    file_of(folder, suffix).write_bytes(content)
    cache = cache_of(folder)
    for number in range(20):
        assert cache.find_content(key(number)) is None
        cache.store(key(number), mfccs_of(number), 1000 + number)
    assert_has(cache, range(20))
    del cache
    assert_has(cache_of(folder), range(20))


def test_features_under_another_key_are_not_taken(folder: Path) -> None:
    """Two files of features that were exchanged: every checksum of a file is right."""
    fill(folder / 'a', range(5))
    fill(folder / 'b', range(5, 10))
    file_of(folder / 'b', '.features').replace(file_of(folder / 'a', '.features'))
    cache = cache_of(folder / 'a')
    assert [cache.find_content(key(number)) for number in range(10)] == [None] * 10


def test_a_folder_removed_while_running(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = fill(folder, range(5))
    other = cache_of(folder)
    for path in sorted(folder.rglob('*'), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    assert cache.find_content(key(1)) is None
    assert other.find_content(key(1)) is None
    other.store(key(1), mfccs_of(1), 1001)
    assert any('cannot be written' in warning for warning in warnings(caplog))


def test_memory_does_not_grow_by_reading(folder: Path) -> None:
    frames = 4000  # 0.4 MB each
    cache = cache_of(folder)
    for number in range(20):
        cache.store(key(number), mfccs_of(number, frames), 1000)

    def resident_bytes() -> int:
        return int(Path('/proc/self/statm').read_text().split()[1]) * os.sysconf('SC_PAGE_SIZE')

    def read_all(times: int) -> None:
        for number in list(range(20)) * times:
            assert cache.find_content(key(number)) is not None

    read_all(2)
    before = resident_bytes()
    read_all(20)  # 160 MB
    assert resident_bytes() - before < 4e6


def test_features_of_this_version_are_these(tmp_path: Path) -> None:
    """If the same audio gives other features, raise `FEATURE_VERSION`: caches of users hold the old ones."""
    moments = np.arange(2400) / 8000
    path = tmp_path / 'tones.wav'
    tones = 0.4 * np.sin(2 * np.pi * 440 * moments) + 0.1 * np.sin(2 * np.pi * 1300 * moments)
    sf.write(path, tones, 8000, subtype='PCM_24')
    features = FeatureConfig()
    audio = read_audio(str(path), features)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        computed = session.run(compute_mfccs(tf.constant(audio), features))
    assert FEATURE_VERSION == 2
    assert audio[1000:1003] == pytest.approx([0.100, 0.018, -0.083], abs=0.001)
    assert computed[7, [0, 1, 25]] == pytest.approx([-39.436, 12.784, 0.886], abs=0.005)
    assert reference_mfccs(audio, features)[7, [0, 1, 25]] == pytest.approx([19.795, 22.623, -0.013], abs=0.005)
