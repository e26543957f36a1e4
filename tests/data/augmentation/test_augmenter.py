"""All augmentations of an utterance together: in which order, how often, with which random numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from deepspeech_training.augment_specs import OPERATIONS
from deepspeech_training.config import FEATURE_BACKENDS, DataConfig, FeatureConfig
from deepspeech_training.data.augmentation.augmenter import MATRIX_OPERATIONS, SAMPLE_OPERATIONS, Augmenter, Moment
from deepspeech_training.data.augmentation.moments import moments_of
from deepspeech_training.data.augmentation.noise import NoiseSource, find_recordings
from deepspeech_training.data.order import epoch_batches
from deepspeech_training.errors import DataError, FlagError

FEATURES = FeatureConfig()
NOW = Moment(2, 7, 0.5)


def speech(count: int = 12000) -> np.ndarray:
    values = np.random.default_rng(3).integers(-9000, 9000, count)
    return (values / 32768).astype(np.float32)


def augmenter_of(*texts: str, seed: int = 5, backend: str = 'tensorflow') -> Augmenter:
    return Augmenter(texts, FeatureConfig(backend=backend), seed)


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """Three recordings of other rates and lengths, each at its own level."""
    folder = tmp_path / 'noise'
    folder.mkdir()
    for number, rate in enumerate((8000, 16000, 44100)):
        soundfile.write(folder / f'{number}.wav', np.full(rate // 2, 0.1 * (number + 1)), rate)
    return folder


def test_every_operation_can_be_done() -> None:
    for name, operation in OPERATIONS.items():
        assert ('sample' in operation.domains) == (name in SAMPLE_OPERATIONS)
        assert (operation.domains != ('sample',)) == (name in MATRIX_OPERATIONS)


@pytest.mark.parametrize('backend', FEATURE_BACKENDS)
@pytest.mark.parametrize(
    'text',
    [
        *(f'{name}[domain={domain}]' for name in ('time_mask', 'dropout', 'add', 'multiply')
          for domain in ('signal', 'spectrogram', 'features')),
        *('reverb', 'resample', 'codec', 'volume', 'pitch', 'tempo', 'warp', 'frequency_mask'),
    ],
)  # fmt: skip
def test_each_changes_something_and_leaves_numbers(text: str, backend: str) -> None:
    samples, before = speech(), speech()
    values, is_mfccs = augmenter_of(text, backend=backend)(samples, NOW)
    np.testing.assert_array_equal(samples, before)
    assert values.dtype == np.float32
    assert np.isfinite(values).all()
    unchanged, _ = augmenter_of(f'{text.rstrip("]")}{"," if "[" in text else "["}p=0]', backend=backend)(samples, NOW)
    np.testing.assert_array_equal(unchanged, samples)
    if is_mfccs:
        unchanged = augmenter_of('add[stddev=0]', backend=backend)(samples, NOW).values
    assert values.shape != unchanged.shape or np.abs(values - unchanged).max() > 1e-3


def test_recordings_are_rounded_to_16_bits_and_signals_are_not() -> None:
    volume = augmenter_of('volume[dbfs=-20]')(speech(), NOW).values * 32768
    np.testing.assert_array_equal(volume, np.rint(volume))
    signal = augmenter_of('multiply[domain=signal,stddev=2]')(speech(), NOW).values
    assert not np.array_equal(signal * 32768, np.rint(signal * 32768))
    assert np.abs(signal).max() > 1


def test_domains_come_in_their_order_whatever_that_of_the_flags() -> None:
    texts = ['add[domain=features]', 'time_mask', 'dropout[domain=signal]', 'reverb', 'pitch', 'volume']
    assert [spec.name for spec in augmenter_of(*texts).specs] == [
        'reverb', 'volume', 'dropout', 'time_mask', 'pitch', 'add',
    ]  # fmt: skip


def test_shares() -> None:
    augmenter = augmenter_of('volume[p=0.3]', 'pitch[p=0.6]')
    drawn = [{draw.spec.name for draw in augmenter.draw(Moment(0, number, 0))} for number in range(4000)]
    volume, pitch = np.array([['volume' in each, 'pitch' in each] for each in drawn]).T
    assert volume.mean() == pytest.approx(0.3, abs=0.03)
    assert pitch.mean() == pytest.approx(0.6, abs=0.03)
    assert (volume & pitch).mean() == pytest.approx(0.18, abs=0.03), 'each by itself'


def test_the_same_moment_is_the_same_and_any_other_is_not() -> None:
    texts = ('dropout[domain=signal]', 'warp', 'add')
    expected = augmenter_of(*texts)(speech(), NOW).values
    np.testing.assert_array_equal(augmenter_of(*texts)(speech(), NOW).values, expected)
    augmenter = augmenter_of(*texts)
    others = [augmenter(speech(), moment).values for moment in (NOW._replace(epoch=3), NOW._replace(number=8))]
    np.testing.assert_array_equal(augmenter(speech(), NOW).values, expected, err_msg='whatever was done before')
    others.append(augmenter_of(*texts, seed=6)(speech(), NOW).values)
    assert not any(np.array_equal(other, expected) for other in others)


def test_operations_do_not_share_random_numbers() -> None:
    one, two = augmenter_of('dropout[domain=signal,rate=0.5]', 'dropout[domain=signal,rate=0.5]').draw(NOW)
    assert not np.array_equal(one.random.random(5), two.random.random(5))


def test_ranges_move() -> None:
    augmenter = augmenter_of('volume[dbfs=-10:-40]')
    levels = []
    for clock in (0.0, 0.5, 1.0):
        peak = np.abs(augmenter(speech(), Moment(0, 0, clock)).values).max()
        levels.append(20 * np.log10(peak) + 3.0103)
    assert levels == pytest.approx([-10, -25, -40], abs=0.05)


def test_tempo_keeps_the_frames_of_the_transcript() -> None:
    augmenter = augmenter_of('tempo[factor=4]')
    frames = FEATURES.frames(12000)
    assert augmenter(speech(), NOW).values.shape == (round(frames / 4), 26)
    assert augmenter(speech(), NOW, 20).values.shape == (20, 26)


@pytest.mark.parametrize('kind', ['folder', 'csv', 'file'])
@pytest.mark.parametrize('layers', [1, 3])
def test_overlay_of_recordings(recordings: Path, kind: str, layers: int) -> None:
    source = recordings
    if kind == 'csv':
        source = recordings / 'noise.csv'
        source.write_text('wav_filename,other\n0.wav,x\n1.wav,y\n2.wav,z\n')
    elif kind == 'file':
        source = recordings / '1.wav'
    samples = speech(40000)
    samples -= samples.mean()
    changed = augmenter_of(f'overlay[source={source},snr=6,layers={layers}]')(samples, NOW).values
    gain = float(np.dot(changed, samples) / np.dot(samples, samples))
    noise = changed / gain - samples
    ratio = 10 * np.log10(np.mean(samples**2) / np.mean(noise**2))
    assert ratio == pytest.approx(6, abs=0.5)
    assert len(find_recordings(str(source))) == (1 if kind == 'file' else 3)


def test_layers_are_made_of_several_recordings_and_begin_anywhere(recordings: Path) -> None:
    source = NoiseSource(str(recordings), FEATURES)
    random = np.random.default_rng(1)
    layers = [source.layer(24000, random) for _ in range(30)]
    assert all(len(layer) == 24000 for layer in layers)
    assert all(len(set(np.round(layer[100::1000], 1))) >= 1 for layer in layers)
    assert len({round(float(layer[1000]), 1) for layer in layers}) == 3
    changes = {int(np.flatnonzero(np.abs(np.diff(layer)) > 0.05)[0]) for layer in layers if np.ptp(layer) > 0.05}
    assert len(changes) > 10, 'the first recording ends at another place each time'


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (None, 'No such file or directory'),
        ('', 'is empty'),
        ('name\na.wav\n', 'lacks the column wav_filename'),
        ('wav_filename\nmissing.wav\n', 'missing.wav: cannot be read'),
        ('wav_filename\nnoise.csv\n', 'noise.csv: cannot be read as audio'),
    ],
)
def test_bad_sources(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / 'noise.csv'
    if content is not None:
        path.write_text(content)
    with pytest.raises(FlagError, match='--augment=overlay') as caught:
        augmenter_of(f'overlay[source={path}]')
    assert f"'source={path}': " in str(caught.value)
    assert message in str(caught.value)


def test_a_folder_without_audio(tmp_path: Path) -> None:
    with pytest.raises(DataError, match='no audio files'):
        find_recordings(str(tmp_path))


def test_what_the_cache_knows_features_by(recordings: Path) -> None:
    def settings(*texts: str, seed: int = 5, epoch: int = 0) -> str:
        return augmenter_of(*texts, seed=seed).settings(epoch)

    overlay = f'overlay[source={recordings}]'
    assert (
        len({settings('pitch'), settings('pitch', 'warp'), settings('pitch', seed=6), settings('pitch', epoch=1)}) == 4
    )
    before = settings(overlay)
    assert settings(overlay) == before
    soundfile.write(recordings / '3.wav', np.zeros(10), 8000)
    assert settings(overlay) != before
    still, moving = augmenter_of('pitch'), augmenter_of('pitch[pitch=1:2]')
    content = bytes(32)
    later = NOW._replace(clock=0.6)
    assert still.key(content, NOW, 1) == still.key(content, later, 1)
    assert moving.key(content, NOW, 1) != moving.key(content, later, 1)
    keys = {still.key(content, NOW, 1), still.key(bytes([1] * 32), NOW, 1), still.key(content, NOW, 2)}
    assert len({*keys, still.key(content, NOW._replace(number=8), 1)}) == 4


@pytest.mark.parametrize(
    'data',
    [
        DataConfig(train_batch_size=2, shuffle_batches=True),
        DataConfig(train_batch_size=4, shuffle_batches=True, bucket_batches=True),
    ],
    ids=['batches', 'buckets'],
)
def test_clocks_go_from_the_start_to_the_end_of_training(data: DataConfig) -> None:
    frames = np.arange(10) // 3
    clocks = []
    for epoch in range(3):
        moments = moments_of(epoch, 3, frames, data, 5, start=100)
        order = epoch_batches(frames, data, epoch, 5).rows + 100
        clocks += moments.clocks_at(order).tolist()
        assert moments.epoch == epoch
    np.testing.assert_allclose(clocks, np.arange(30) / 30)


def test_with_a_cache_they_stand_still() -> None:
    data = DataConfig(feature_cache='cache', cache_for_epochs=2)
    found = [moments_of(epoch, 4, np.zeros(5, np.int64), data, 5) for epoch in range(4)]
    assert [each.epoch for each in found] == [0, 0, 2, 2]
    np.testing.assert_array_equal(found[0].clocks, found[1].clocks)
    np.testing.assert_allclose(found[3].clocks, (2 + np.arange(5) / 5) / 4)
