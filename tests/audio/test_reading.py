"""Reading audio files: formats, channels, sample rates, and files that are none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from deepspeech_training.audio.reading import AudioInfo, audio_info, read_audio, resampled_length, to_16_bits
from deepspeech_training.config import FeatureConfig
from deepspeech_training.errors import DataError

FEATURES = FeatureConfig()  # 16 kHz


def tone(seconds: float = 0.5, rate: int = 16000, hertz: float = 440.0) -> npt.NDArray[np.float32]:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def write(path: Path, samples: npt.NDArray[np.float32], rate: int = 16000, **options: Any) -> str:
    soundfile.write(path, samples, rate, **options)
    return str(path)


def test_int16_full_scale_is_32768(tmp_path: Path) -> None:
    values = np.array([0, 1, -1, 16384, 32767, -32768] * 100, np.int16)
    soundfile.write(tmp_path / 'a.wav', values, 16000)

    samples = read_audio(str(tmp_path / 'a.wav'), FEATURES)

    assert samples.dtype == np.float32
    assert samples.flags.c_contiguous
    np.testing.assert_array_equal(samples, values.astype(np.float32) / 32768)


@pytest.mark.parametrize(
    ('suffix', 'options', 'tolerance'),
    [
        ('wav', {'subtype': 'PCM_16'}, 4e-5),
        ('wav', {'subtype': 'PCM_U8'}, 1e-2),
        ('wav', {'subtype': 'PCM_24'}, 2e-5),
        ('wav', {'subtype': 'FLOAT'}, 2e-5),
        ('wav', {'subtype': 'ULAW'}, 2e-2),
        ('wav', {'subtype': 'PCM_16', 'format': 'WAVEX'}, 4e-5),
        ('flac', {}, 4e-5),
        ('aiff', {}, 4e-5),
        ('ogg', {}, 5e-2),
        ('mp3', {}, 5e-2),
    ],
)
def test_formats(tmp_path: Path, suffix: str, options: dict[str, Any], tolerance: float) -> None:
    original = tone()
    path = write(tmp_path / f'a.{suffix}', original, **options)

    samples = read_audio(path, FEATURES)

    assert audio_info(path) == AudioInfo(8000, 16000, 1)
    assert samples.shape == (8000,)
    np.testing.assert_allclose(samples, original, rtol=0, atol=tolerance)


@pytest.mark.parametrize('name', ['a', 'a.raw', 'a.vox', 'a.mp3', 'a.txt', 'ä ö.flac'])
def test_content_decides_not_the_name(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, tone(), format='WAV')

    assert audio_info(path) == AudioInfo(8000, 16000, 1)
    assert read_audio(path, FEATURES).shape == (8000,)


def test_channels_are_averaged(tmp_path: Path) -> None:
    left, right = tone(hertz=440), tone(hertz=1000)
    path = write(tmp_path / 'a.wav', np.stack([left, right], axis=1), subtype='FLOAT')

    assert audio_info(path).channels == 2
    np.testing.assert_allclose(read_audio(path, FEATURES), (left + right) / 2, rtol=0, atol=2e-5)


@pytest.mark.parametrize('rate', [8000, 11025, 22050, 44100, 48000])
def test_other_rates_are_resampled(tmp_path: Path, rate: int) -> None:
    path = write(tmp_path / 'a.wav', tone(rate=rate), rate, subtype='FLOAT')

    samples = read_audio(path, FEATURES)

    assert samples.dtype == np.float32
    assert samples.shape == (resampled_length(round(0.5 * rate), rate, 16000),)
    # Away from the ends, where the converter sees silence, it is the same tone.
    np.testing.assert_allclose(samples[800:-800], tone()[800 : len(samples) - 800], rtol=0, atol=2e-3)


def test_resampled_to_the_rate_of_the_model(tmp_path: Path) -> None:
    path = write(tmp_path / 'a.wav', tone())

    assert read_audio(path, FeatureConfig(sample_rate=8000)).shape == (4000,)


def test_resampling_can_be_forbidden(tmp_path: Path) -> None:
    features = FeatureConfig(normalize_sample_rate=False)
    same, other = write(tmp_path / 'same.wav', tone()), write(tmp_path / 'other.wav', tone(rate=8000), 8000)

    assert read_audio(same, features).shape == (8000,)
    with pytest.raises(DataError, match=r'other\.wav.*8000 Hz, not 16000 Hz.*--nonormalize_sample_rate'):
        read_audio(other, features)


@pytest.mark.parametrize(('rate', 'channels'), [(16000, 1), (8000, 1), (16000, 2)])
@pytest.mark.parametrize('subtype', ['PCM_16', 'PCM_U8', 'PCM_24', 'FLOAT'])
def test_values_are_those_of_16_bits(tmp_path: Path, subtype: str, rate: int, channels: int) -> None:
    noise = np.random.default_rng(1).normal(0, 0.7, [4000, channels]).astype(np.float32)
    path = write(tmp_path / 'a.wav', noise, rate, subtype=subtype)

    samples = read_audio(path, FEATURES)

    values = samples * 32768
    assert samples.flags.c_contiguous
    np.testing.assert_array_equal(values, np.round(values))
    assert values.min() >= -32768
    assert values.max() <= 32767


def test_rounds_to_the_nearest_16_bit_value() -> None:
    values = np.array([0.4, 0.6, -0.6, 1.0, -32768.0, 32767.0, 32768.0, 40000.0, -40000.0], np.float32)

    rounded = to_16_bits(values / np.float32(32768)) * 32768

    np.testing.assert_array_equal(rounded, [0, 1, -1, 1, -32768, 32767, 32767, 32767, -32768])
    assert rounded.dtype == np.float32


@settings(deadline=None)
@given(st.integers(1, 5000), st.integers(4000, 192000), st.sampled_from([8000, 16000]))
def test_length_after_resampling_is_known_beforehand(samples: int, rate: int, new_rate: int) -> None:
    resampled = soxr.resample(np.zeros(samples, np.float32), rate, new_rate)

    assert resampled_length(samples, rate, new_rate) == len(resampled)


@pytest.mark.parametrize('rate', [16000, 8000])
def test_no_samples(tmp_path: Path, rate: int) -> None:
    path = write(tmp_path / 'a.wav', np.zeros(0, np.float32), rate)

    assert audio_info(path).frames == 0
    assert read_audio(path, FEATURES).shape == (0,)


@pytest.mark.parametrize(
    ('content', 'reason'),
    [
        (b'', 'is empty'),
        (b'this is text, whatever the name says\n' * 100, 'cannot be read as audio'),
        (b'RIFF', 'cannot be read as audio'),
        (b'RIFF\x00\x00\x00\x00WAVEfmt ', 'cannot be read as audio'),
    ],
)
@pytest.mark.parametrize('name', ['a.wav', 'a.vox', 'a.raw'])
def test_not_audio(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    for read in (audio_info, lambda path: read_audio(path, FEATURES)):
        with pytest.raises(DataError, match=rf'{name}: {reason}'):
            read(str(path))


def test_missing_file_and_folder(tmp_path: Path) -> None:
    for path in (tmp_path / 'nowhere.wav', tmp_path):
        for read in (audio_info, lambda path: read_audio(path, FEATURES)):
            with pytest.raises(DataError, match=f'{path}: cannot be read: (No such file|Is a directory)'):
                read(str(path))


def test_pipes_and_devices_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / 'pipe')  # nobody writes
    for path in (str(tmp_path / 'pipe'), '/dev/zero'):
        for read in (audio_info, lambda path: read_audio(path, FEATURES)):
            with pytest.raises(DataError, match=f'{path}: is not a file'):
                read(path)


@pytest.mark.skipif(os.geteuid() == 0, reason='root may read every file')
def test_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = write(tmp_path / 'a.wav', tone())
    os.chmod(path, 0)

    with pytest.raises(DataError, match='Permission denied'):
        audio_info(path)


def cut(path: str, part: float) -> None:
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[: int(len(content) * part)])


def test_wav_that_is_cut_off(tmp_path: Path) -> None:
    path = write(tmp_path / 'a.wav', tone(seconds=2.0))
    cut(path, 0.5)

    with pytest.raises(DataError, match=r'cut off: its header promises 2\.00 s of audio, 1\.00 s are there'):
        audio_info(path)
    assert read_audio(path, FEATURES).shape == (15989,)  # what is there: half the file, less half the header


@pytest.mark.parametrize('suffix', ['flac', 'mp3'])
def test_compressed_file_that_is_cut_off(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f'a.{suffix}', tone(seconds=4.0))
    cut(path, 0.5)

    with pytest.raises(DataError, match=r'cut off or damaged: its header promises 4\.00 s'):
        audio_info(path)


def test_flac_damaged_in_the_middle(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).normal(0, 0.1, 64000).astype(np.float32)
    path = tmp_path / 'a.flac'
    write(path, noise)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 2000] = bytes(2000)
    path.write_bytes(content)

    with pytest.raises(DataError, match=r'a\.flac: cannot be read as audio'):
        read_audio(str(path), FEATURES)


@pytest.mark.parametrize('promised', [0xFFFFFFFF, 0xFFFFFFD3, 0x7FFFFFFF, 0x7FFFF000, 16000 + 44, 16001])
def test_wav_lengths_that_programs_write_when_they_do_not_know_better(tmp_path: Path, promised: int) -> None:
    path = tmp_path / 'a.wav'
    write(path, tone())
    content = bytearray(path.read_bytes())
    assert content[36:40] == b'data'
    content[40:44] = promised.to_bytes(4, 'little')
    path.write_bytes(content)

    assert audio_info(str(path)).frames == 8000
    assert read_audio(str(path), FEATURES).shape == (8000,)


def test_samples_that_are_not_finite(tmp_path: Path) -> None:
    samples = tone()
    samples[100] = np.nan
    path = write(tmp_path / 'a.wav', samples, subtype='FLOAT')

    with pytest.raises(DataError, match=r'a\.wav: has samples that are not finite'):
        read_audio(path, FEATURES)


@pytest.mark.skipif(not os.path.isdir('/proc/self/fd'), reason='no /proc: open files cannot be counted')
def test_no_file_stays_open(tmp_path: Path) -> None:
    good, bad = write(tmp_path / 'a.wav', tone()), tmp_path / 'bad.wav'
    bad.write_bytes(b'no audio')
    before = len(os.listdir('/proc/self/fd'))

    for _ in range(10):
        audio_info(good)
        read_audio(good, FEATURES)
        for read in (audio_info, lambda path: read_audio(path, FEATURES)):
            with pytest.raises(DataError):
                read(str(bad))

    assert len(os.listdir('/proc/self/fd')) == before


def read_both(path: Path, content: bytes | None = None) -> list[AudioInfo | npt.NDArray[np.float32] | str]:
    """What `audio_info` and `read_audio` answer, or the messages of their errors."""
    answers: list[AudioInfo | npt.NDArray[np.float32] | str] = []
    try:
        answers.append(audio_info(str(path), content))
    except DataError as error:
        answers.append(str(error))
    try:
        answers.append(read_audio(str(path), FEATURES, content=content))
    except DataError as error:
        answers.append(str(error))
    return answers


@pytest.mark.parametrize('part', [1.0, 0.9, 0.5, 0.01, 0.0])
@pytest.mark.parametrize(
    ('options', 'rate'),
    [
        ({'format': 'WAV'}, 16000),
        ({'format': 'WAV', 'subtype': 'FLOAT'}, 8000),
        ({'format': 'FLAC'}, 16000),
        ({'format': 'OGG'}, 44100),
        ({'format': 'OGG', 'subtype': 'OPUS'}, 48000),
        ({'format': 'MP3'}, 22050),
        ({'format': 'RAW', 'subtype': 'PCM_16'}, 16000),  # has no header: no audio
    ],
    ids=str,
)
def test_bytes_that_are_no_file_of_their_own(tmp_path: Path, options: dict[str, str], rate: int, part: float) -> None:
    noise = np.random.default_rng(1).normal(0, 0.1, [rate, 2]).astype(np.float32)
    path = tmp_path / 'a'
    cut(write(path, noise, rate, **options), part)

    from_file = read_both(path)
    from_content = read_both(path, path.read_bytes())

    for one, other in zip(from_file, from_content, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize('buffer_size', [0, 1, 10**9])
def test_any_buffer_size_reads_the_same(tmp_path: Path, buffer_size: int) -> None:
    path = write(tmp_path / 'a.wav', tone())

    np.testing.assert_array_equal(read_audio(path, FEATURES, buffer_size), read_audio(path, FEATURES))


@pytest.mark.parametrize(
    ('name', 'info'),
    [
        ('pcms16le_1_16000', AudioInfo(46797, 16000, 1)),
        ('pcms16le_1_8000', AudioInfo(23399, 8000, 1)),
        ('pcms16le_2_44100', AudioInfo(128985, 44100, 2)),
    ],
)
def test_one_utterance_in_three_formats(deepspeech_data: Path, name: str, info: AudioInfo) -> None:
    folder = deepspeech_data / 'deepspeech-0.9.3' / 'ldc93s1'
    path = str(folder / f'LDC93S1_{name}.wav')
    original = read_audio(str(folder / 'LDC93S1_pcms16le_1_16000.wav'), FEATURES)

    samples = read_audio(path, FEATURES)

    assert audio_info(path) == info
    assert abs(len(samples) - len(original)) <= 1
    shared = min(len(samples), len(original))
    assert np.corrcoef(samples[:shared], original[:shared])[0, 1] > 0.9
