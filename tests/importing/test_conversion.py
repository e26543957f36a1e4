"""Audio becomes 16-bit WAV files, each whole or not there, and none is made twice."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from deepspeech_training.config import FeatureConfig
from deepspeech_training.errors import DataError
from deepspeech_training.importing.conversion import Converted, Piece, Recording, convert, convert_all
from tests.corpora import sound, tone, tone_of


def one(audio: Path, output: Path, rate: int = 16000, start: float = 0.0, end: float | None = None) -> Converted:
    (result,) = convert(Recording(str(audio), (Piece(str(output), start, end),)), FeatureConfig(sample_rate=rate))
    return result


@pytest.mark.parametrize(('name', 'rate', 'channels'), [('a.wav', 44100, 2), ('a.flac', 8000, 1), ('a.sph', 16000, 1)])
def test_any_format_becomes_mono_at_the_wanted_rate(tmp_path: Path, name: str, rate: int, channels: int) -> None:
    result = one(sound(tmp_path / name, 5, 1.5, rate, channels), tmp_path / 'new/out.wav')
    assert (result.frames, result.sample_rate, result.problem, result.was_there) == (24000, 16000, '', False)
    assert result.size == (tmp_path / 'new/out.wav').stat().st_size
    samples, new_rate = soundfile.read(result.path, dtype='float32')
    assert new_rate == 16000
    assert tone_of(samples, new_rate) == 5
    inner = slice(1600, -1600)  # resampling has edges
    np.testing.assert_allclose(samples[inner], tone(5, 1.5, 16000)[inner], atol=2e-4)


def test_pieces_are_the_seconds_that_are_asked_for(tmp_path: Path) -> None:
    audio = tmp_path / 'a.sph'
    samples = np.concatenate([tone(number, 1.0, 16000) for number in range(3)])
    soundfile.write(audio, samples, 16000, format='NIST', subtype='PCM_16')
    written, _ = soundfile.read(audio, dtype='int16')
    pieces = (
        Piece(str(tmp_path / '0.wav'), 0.1, 0.9),
        Piece(str(tmp_path / '2.wav'), 2.05, None),
        Piece(str(tmp_path / 'beyond.wav'), 2.5, 9.0),
        Piece(str(tmp_path / 'none.wav'), 3.5, 4.0),
    )
    results = convert(Recording(str(audio), pieces), FeatureConfig())
    for result, part in zip(results, (written[1600:14400], written[32800:], written[40000:]), strict=False):
        np.testing.assert_array_equal(soundfile.read(result.path, dtype='int16')[0], part)
    assert results[3].problem == 'its recording of 3.00 s has nothing at 3.50 s'
    assert not (tmp_path / 'none.wav').exists()


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    audio, output = sound(tmp_path / 'a.wav', 1), tmp_path / 'out.wav'
    first = one(audio, output)
    number = output.stat().st_ino
    second = one(audio, output)
    assert second.was_there
    assert (second.frames, second.size, second.sample_rate) == (first.frames, first.size, first.sample_rate)
    assert output.stat().st_ino == number


def test_what_is_not_whole_or_not_of_this_audio_is_made_again(tmp_path: Path) -> None:
    audio, output = sound(tmp_path / 'a.wav', 1), tmp_path / 'out.wav'
    one(audio, output)
    content, changed = output.read_bytes(), audio.stat().st_mtime_ns

    output.write_bytes(content[: len(content) // 2])  # a copy that was interrupted, with the time of the original
    os.utime(output, ns=(changed, changed))
    assert not one(audio, output).was_there
    assert output.read_bytes() == content

    (tmp_path / '.out.wav.part').write_bytes(b'of a process that was killed')
    output.unlink()
    assert not one(audio, output).was_there
    assert output.read_bytes() == content
    assert not (tmp_path / '.out.wav.part').exists()

    assert one(audio, output, rate=8000).sample_rate == 8000
    assert not one(audio, output).was_there

    sound(audio, 2)
    os.utime(audio, ns=(changed - 10**9, changed - 10**9))  # an older recording takes its place
    assert not one(audio, output).was_there
    assert tone_of(*soundfile.read(output, dtype='float32')) == 2


def test_audio_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    text, cut = tmp_path / 'text.wav', sound(tmp_path / 'cut.wav', 0)
    text.write_text('no audio' * 100)
    cut.write_bytes(cut.read_bytes()[:10000])
    for audio, problem in (
        (text, 'cannot be read as audio'),
        (cut, 'is cut off'),
        (tmp_path / 'no.wav', 'No such file'),
    ):
        result = one(audio, tmp_path / 'out.wav')
        assert problem in result.problem
        assert str(audio) not in result.problem
        assert not (tmp_path / 'out.wav').exists()


def test_audio_that_stays_is_looked_at(tmp_path: Path) -> None:
    audio = sound(tmp_path / 'a.flac', 0, 2.0, 48000)
    (result,) = convert(Recording(str(audio), (Piece(''),)), FeatureConfig())
    assert (result.path, result.frames, result.sample_rate) == (str(audio), 96000, 48000)


@pytest.mark.parametrize('processes', [1, 3])
def test_many_files_by_several_processes(tmp_path: Path, processes: int) -> None:
    audio = [sound(tmp_path / f'{number}.wav', number % 20, 0.3) for number in range(70)]
    recordings = [Recording(str(path), (Piece(str(tmp_path / 'out' / path.name)),)) for path in audio]
    results = [converted for some in convert_all(recordings, FeatureConfig(), processes) for converted in some]
    assert sorted(result.path for result in results) == sorted(str(tmp_path / 'out' / path.name) for path in audio)
    for path in (tmp_path / 'out').iterdir():
        assert tone_of(*soundfile.read(path, dtype='float32')) == int(path.stem) % 20


@pytest.mark.parametrize('processes', [1, 2])
def test_a_full_disk_ends_it(small_disk: Path, tmp_path: Path, processes: int) -> None:
    audio = [sound(tmp_path / f'{number}.wav', number, 20.0) for number in range(2)]
    recordings = [Recording(str(path), (Piece(str(small_disk / path.name)),)) for path in audio]
    with pytest.raises(DataError, match='cannot be written: No space left'):
        list(convert_all(recordings, FeatureConfig(), processes))
    assert sum(path.suffix == '.wav' for path in small_disk.iterdir()) == 1
