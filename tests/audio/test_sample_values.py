"""Every sample format, against values known from its definition and from what SoX makes of the same file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import soundfile

from deepspeech_training.audio.reading import AudioInfo, audio_info, read_audio
from deepspeech_training.config import FeatureConfig
from tests.sound_files import CONTAINERS, ENCODINGS, Encoding, sowt, wav

RATE = 16000
TOLERANCE = 1e-4
SOX = shutil.which('sox')
needs_sox = pytest.mark.skipif(SOX is None, reason='sox is not installed (Debian package sox): nothing to compare with')


def sound(channels: int = 1, count: int = 4000) -> npt.NDArray[np.float64]:
    """Tones below 3 kHz that come and go, and full scale: float64 `[count, channels]`."""
    random = np.random.default_rng(1)
    moments = np.arange(count)[:, None, None] / RATE
    hertz = random.uniform(100, 3000, [1, channels, 12])
    tones = np.sin(2 * np.pi * hertz * moments + random.uniform(0, 6, hertz.shape)).mean(axis=2)
    return tones * np.hanning(count)[:, None]


def with_extremes(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    values = values.copy()
    values[100:106] = np.array([1, -1, 0, 1 / 32768, -1 / 32768, 0.5])[:, None]
    return values


def read(path: Path, rate: int = RATE) -> npt.NDArray[np.float32]:
    return read_audio(str(path), FeatureConfig(sample_rate=rate))


@pytest.mark.parametrize('channels', [1, 2, 3])
@pytest.mark.parametrize('encoding', ENCODINGS, ids=lambda encoding: encoding.name)
@pytest.mark.parametrize('container', CONTAINERS)
def test_values_of_every_encoding(tmp_path: Path, container: str, encoding: Encoding, channels: int) -> None:
    values = with_extremes(sound(channels))
    path = tmp_path / 'a'
    path.write_bytes(CONTAINERS[container](values, encoding, RATE))
    decoded = encoding.decoded(values)

    assert audio_info(str(path)) == AudioInfo(len(values), RATE, channels)
    expected = np.clip(decoded.mean(axis=1), -1, 32767 / 32768)
    np.testing.assert_allclose(read(path), expected, rtol=0, atol=TOLERANCE)
    for channel in range(1, channels + 1):
        picked = read_audio(str(path), FeatureConfig(channel=channel))
        expected = np.clip(decoded[:, channel - 1], -1, 32767 / 32768)
        np.testing.assert_allclose(picked, expected, rtol=0, atol=TOLERANCE)
        assert picked.flags.c_contiguous


def test_apples_order_of_bytes(tmp_path: Path) -> None:
    values = with_extremes(sound(2))
    path = tmp_path / 'a'
    path.write_bytes(sowt(values, ENCODINGS[1], RATE))
    expected = ENCODINGS[1].decoded(values).mean(axis=1)
    np.testing.assert_allclose(read(path), expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    ('form', 'subtype'),
    [
        *(('FLAC', subtype) for subtype in ('PCM_S8', 'PCM_16', 'PCM_24')),
        *(('CAF', subtype) for subtype in ('ALAC_16', 'ALAC_20', 'ALAC_24', 'ALAC_32')),
    ],
)
@pytest.mark.parametrize('channels', [1, 2, 3])
def test_values_that_are_compressed_without_loss(tmp_path: Path, form: str, subtype: str, channels: int) -> None:
    values = with_extremes(sound(channels))
    bits = int(subtype.split('_')[1].removeprefix('S'))
    decoded = np.clip(np.rint(values * 2 ** (bits - 1)), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1) / 2 ** (bits - 1)
    path = tmp_path / 'a'
    soundfile.write(path, decoded, RATE, format=form, subtype=subtype)

    assert audio_info(str(path)) == AudioInfo(len(values), RATE, channels)
    expected = np.clip(decoded.mean(axis=1), -1, 32767 / 32768)
    np.testing.assert_allclose(read(path), expected, rtol=0, atol=TOLERANCE)


def test_floats_beyond_full_scale_are_clipped(tmp_path: Path) -> None:
    path = tmp_path / 'a.wav'
    path.write_bytes(wav(np.array([[1.5], [-1.5], [99.0], [0.25]] * 200), ENCODINGS[4], RATE))
    np.testing.assert_allclose(read(path)[:4], [32767 / 32768, -1, 32767 / 32768, 0.25])


# --- SoX ----------------------------------------------------------------------------------------------------------


def sox(*arguments: str) -> bytes:
    assert SOX is not None
    return subprocess.run([SOX, '-D', '-V1', *arguments], check=True, capture_output=True).stdout


def decoded_by_sox(path: Path, *effects: str) -> npt.NDArray[np.float64]:
    return np.frombuffer(sox(str(path), *['-t', 'raw', '-e', 'float', '-b', '64', '-c', '1', '-L', '-'], *effects))


@pytest.fixture
def source(tmp_path: Path) -> str:
    """A file for SoX to convert."""
    path = tmp_path / 'source.wav'
    path.write_bytes(wav(sound(count=RATE), ENCODINGS[5], RATE))
    return str(path)


@needs_sox
@pytest.mark.parametrize(
    'form',
    [
        *('wav -e unsigned -b 8', 'wav -e signed -b 16', 'wav -e signed -b 24', 'wav -e signed -b 32'),
        *('wav -e float -b 32', 'wav -e float -b 64', 'wav -e mu-law', 'wav -e a-law', 'wav -B -b 16'),
        *('wav -e ima-adpcm', 'wav -e ms-adpcm', 'wav -e gsm -r 8000'),
        *('aiff -b 8', 'aiff -b 16', 'aiff -b 24', 'aiff -b 32', 'aifc -b 16'),
        *('au -e signed -b 8', 'au -e signed -b 16', 'au -e signed -b 24', 'au -e signed -b 32'),
        *('au -e float -b 32', 'au -e float -b 64', 'au -e mu-law', 'au -e a-law'),
        *('caf -b 16', 'caf -b 24', 'caf -e mu-law', 'w64 -b 16', 'w64 -b 24'),
        *('flac -b 8', 'flac -b 16', 'flac -b 24', 'vorbis', 'sph -b 16', 'sph -e mu-law'),
        *('voc -b 16', 'ircam -e signed -b 16', 'paf -b 16', 'pvf -b 16', 'mat4 -b 16', 'mat5 -b 16', 'avr -b 16'),
    ],
)
def test_the_same_values_as_sox(tmp_path: Path, source: str, form: str) -> None:
    kind, *options = form.split()
    path = tmp_path / 'a'
    sox(source, '-t', kind, *options, str(path))
    rate = 8000 if '8000' in options else RATE
    path = path.rename(path.with_suffix(f'.{kind}'))  # for SoX: it knows some by their names only

    expected, samples = decoded_by_sox(path), read(path, rate)

    assert np.abs(samples).max() > 0.1
    longer = 400 if kind in ('voc', 'wav') else 0  # SoX leaves out a part of the last block
    assert len(expected) <= len(samples) <= len(expected) + longer
    np.testing.assert_allclose(samples[: len(expected)], expected, rtol=0, atol=TOLERANCE)


@needs_sox
@pytest.mark.parametrize('channels', [2, 3, 6])
def test_channels_are_mixed_and_picked_as_by_sox(tmp_path: Path, channels: int) -> None:
    path = tmp_path / 'a.wav'
    path.write_bytes(wav(sound(channels), ENCODINGS[4], RATE))

    np.testing.assert_allclose(read(path), decoded_by_sox(path, 'remix', '-'), rtol=0, atol=TOLERANCE)
    for channel in range(1, channels + 1):
        picked = read_audio(str(path), FeatureConfig(channel=channel))
        np.testing.assert_allclose(picked, decoded_by_sox(path, 'remix', str(channel)), rtol=0, atol=TOLERANCE)


@needs_sox
@pytest.mark.parametrize('rate', [8000, 11025, 12000, 22050, 32000, 44100, 48000, 96000])
def test_another_rate_is_converted_as_by_sox(tmp_path: Path, source: str, rate: int) -> None:
    path = tmp_path / 'a.wav'
    sox(source, '-r', str(rate), '-b', '24', str(path))

    expected, samples = decoded_by_sox(path, 'rate', '-h', str(RATE)), read(path)

    assert abs(len(expected) - len(samples)) <= 1
    shared = min(len(expected), len(samples))
    np.testing.assert_allclose(samples[:shared], expected[:shared], rtol=0, atol=TOLERANCE)
