"""Each kind of finding: a data set in which exactly that is found."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from deepspeech_training.doctor.kinds import KINDS
from deepspeech_training.doctor.listening import listen
from deepspeech_training.errors import DataError
from deepspeech_training.text.byte_alphabet import ByteAlphabet
from tests.doctor.sets import RATE, Audio, examined, found, sound_set, speech, table, wav

Expected = list[tuple[str, str, int]]
SILENCE = np.zeros(3 * RATE)


def test_nothing_is_found_in_sound_sets(tmp_path: Path) -> None:
    train = table(tmp_path / 'train.csv', sound_set(tmp_path, 'train', 25))
    test = table(tmp_path / 'test.csv', sound_set(tmp_path, 'test', 5, first=40))
    assert found(train, test) == []
    assert found(train, test, alphabet=None) == []


# --- one recording ------------------------------------------------------------------------------------------------


def instead_of(path: Path, make: Callable[[Path], None]) -> None:
    path.unlink()
    make(path)


CLIPPED = np.clip(2 * np.sin(np.arange(RATE) * 2 * np.pi * 100 / RATE), -1, 1)
"""Of 160 samples, 53 on each side are as loud as can be."""
DAMAGED: dict[str, tuple[str, Callable[[Path], object]]] = {
    'missing': ('does not exist', lambda path: path.unlink()),
    'empty': ('is empty (0 bytes)', lambda path: path.write_bytes(b'')),
    'cut off': ('is cut off', lambda path: path.write_bytes(path.read_bytes()[:16000])),
    'no audio': ('cannot be read as audio', lambda path: path.write_bytes(b'hello' * 1000)),
    'folder': ('is not a file', lambda path: instead_of(path, Path.mkdir)),
    'pipe': ('is not a file', lambda path: instead_of(path, os.mkfifo)),
    'nan': ('not finite', lambda path: wav(path, np.where(np.arange(RATE) == 9, np.nan, 0.1), subtype='FLOAT')),
}


@pytest.mark.parametrize('damage', DAMAGED)
def test_audio_that_cannot_be_used(tmp_path: Path, damage: str) -> None:
    message, do = DAMAGED[damage]
    rows = sound_set(tmp_path)
    path = table(tmp_path / 'train.csv', rows)
    do(tmp_path / rows[1][0])
    _, report = examined(path)
    assert [(each.kind, each.problem.line) for each in report.findings if each.kind != 'size'] == [('audio', 3)]
    assert message in report.findings[0].problem.message
    assert (report.sets[0].rows, report.sets[0].usable) == (3, 2)


@pytest.mark.parametrize(
    ('kind', 'samples'),
    [
        ('short', speech(7, 0.03)),
        ('short', speech(7, 0)),
        ('silent', SILENCE),
        ('silent', 0.001 * speech(7)),
        ('quiet', 0.02 * speech(7)),
        ('clipping', CLIPPED),
        ('offset', 0.5 * speech(7) + 0.05),
        ('silence', np.concatenate([SILENCE, speech(7)])),
        ('silence', np.concatenate([speech(7), SILENCE])),
        ('silence', np.concatenate([np.zeros(RATE), speech(7, 0.06), np.zeros(RATE)])),
        ('long', speech(7, 41)),
    ],
)
def test_one_recording(tmp_path: Path, kind: str, samples: Audio) -> None:
    rows = [*sound_set(tmp_path), ('odd.wav', 'a')]
    wav(tmp_path / 'odd.wav', samples)
    assert found(table(tmp_path / 'train.csv', rows)) == [(kind, 'train.csv', 5)]


def test_a_peak_at_full_scale_is_not_clipped(tmp_path: Path) -> None:
    rows = [*sound_set(tmp_path), ('loud.wav', 'a'), ('tone.wav', 'b')]
    loud = speech(7)
    wav(tmp_path / 'loud.wav', loud / np.abs(loud).max())
    wav(tmp_path / 'tone.wav', np.sin(np.arange(RATE) * 2 * np.pi * 1000 / RATE))
    assert found(table(tmp_path / 'train.csv', rows)) == []


@pytest.mark.parametrize('subtype', ['PCM_U8', 'PCM_16', 'PCM_24', 'FLOAT', 'ULAW', 'ALAW'])
def test_clipping_in_every_sample_format(tmp_path: Path, subtype: str) -> None:
    path = wav(tmp_path / 'a.wav', CLIPPED, subtype=subtype)
    measured = listen(str(path), path.read_bytes())
    # With few steps near full scale, neighbours are rounded to it.
    assert 0 <= measured.clipped - np.mean(np.abs(CLIPPED) == 1) < 0.03
    assert 53 <= measured.clipped_run <= 55
    quiet = wav(tmp_path / 'b.wav', speech(77), subtype=subtype)
    assert listen(str(quiet), quiet.read_bytes()).clipped == 0


def test_one_channel_that_is_clipped_is_heard(tmp_path: Path) -> None:
    path = wav(tmp_path / 'a.wav', np.stack([speech(1), CLIPPED], axis=1))
    measured = listen(str(path), path.read_bytes())
    assert measured.channels == 2
    assert measured.clipped == pytest.approx(np.mean(np.abs(CLIPPED) == 1) / 2)


def test_a_channel_that_is_picked_is_the_one_that_counts(tmp_path: Path) -> None:
    path = wav(tmp_path / 'a.wav', np.stack([np.zeros(RATE), speech(1)], axis=1))
    peaks = [listen(str(path), path.read_bytes(), channel).peak for channel in (0, 1, 2)]
    assert peaks == pytest.approx([0.2, 0, 0.4], abs=1e-3)
    with pytest.raises(DataError, match='has 2 channels; there is no channel 3'):
        listen(str(path), path.read_bytes(), 3)


def test_a_model_of_bytes_writes_everything(tmp_path: Path) -> None:
    rows = sound_set(tmp_path)
    rows[1] = (rows[1][0], 'señor')
    path = table(tmp_path / 'train.csv', rows)
    assert found(path, alphabet=ByteAlphabet(normalization='NFC')) == []
    rows[1] = (rows[1][0], '日' * 17)  # 51 bytes, and a second has 49 frames
    assert found(table(path, rows), alphabet=ByteAlphabet(normalization='NFC')) == [('length', 'train.csv', 3)]
    _, report = examined(path, alphabet=ByteAlphabet(normalization='NFC'))
    assert all(each.known for each in report.characters)


def test_silence_is_measured(tmp_path: Path) -> None:
    path = wav(tmp_path / 'a.wav', np.concatenate([np.zeros(8000), speech(3), np.zeros(4000)]))
    measured = listen(str(path), path.read_bytes())
    assert measured.leading == pytest.approx(0.5, abs=0.02)
    assert measured.trailing == pytest.approx(0.25, abs=0.02)
    assert measured.active == pytest.approx(1 / 1.75, abs=0.03)


def test_several_sample_rates(tmp_path: Path) -> None:
    rows = [*sound_set(tmp_path), ('other.wav', 'a')]
    wav(tmp_path / 'other.wav', speech(7, rate=8000), 8000)
    _, report = examined(table(tmp_path / 'train.csv', rows))
    assert [each.kind for each in report.findings] == ['rates']
    assert report.findings[0].problem.message == 'has recordings of 8000 Hz (1), 16000 Hz (3)'


def test_other_sizes(tmp_path: Path) -> None:
    rows = sound_set(tmp_path)
    path = table(tmp_path / 'train.csv', rows)
    wav(tmp_path / rows[2][0], speech(2), subtype='PCM_24')
    assert found(path) == [('size', 'train.csv', 4)]


# --- transcripts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('kind', 'transcript'),
    [
        ('empty', ''),
        ('empty', '  '),
        ('alphabet', 'señor'),
        ('length', 'a' * 26),
        ('spaces', 'two  spaces'),
        ('spaces', ' one'),
        ('spaces', 'one '),
    ],
)
def test_one_transcript(tmp_path: Path, kind: str, transcript: str) -> None:
    rows = sound_set(tmp_path)
    rows[1] = (rows[1][0], transcript)
    assert found(table(tmp_path / 'train.csv', rows)) == [(kind, 'train.csv', 3)]


@pytest.mark.parametrize(
    ('kind', 'transcript'),
    [
        ('invisible', 'a\u00a0b'),
        ('invisible', 'tab\there'),
        ('invisible', 'soft\u00adhyphen'),
        ('digits', 'room 101'),
        ('normal form', 'sen\u0303or'),
        ('length', 'ab' * 30),
    ],
)
def test_one_transcript_without_an_alphabet(tmp_path: Path, kind: str, transcript: str) -> None:
    rows = sound_set(tmp_path)
    rows[1] = (rows[1][0], transcript)
    assert found(table(tmp_path / 'train.csv', rows), alphabet=None) == [(kind, 'train.csv', 3)]


def test_capitals_beside_small_letters(tmp_path: Path) -> None:
    rows = sound_set(tmp_path)
    assert found(table(tmp_path / 'a.csv', [(name, text.upper()) for name, text in rows]), alphabet=None) == []
    rows[1] = (rows[1][0], 'Hello')
    _, report = examined(table(tmp_path / 'b.csv', rows), alphabet=None)
    assert [each.kind for each in report.findings] == ['case']
    assert report.findings[0].problem.message == '1 of its transcripts have capitals, 3 have small letters'


@pytest.mark.parametrize(('kind', 'seconds'), [('fast', 0.3), ('slow', 5)])
def test_odd_rates_of_speech(tmp_path: Path, kind: str, seconds: float) -> None:
    rows = [*sound_set(tmp_path, count=30), ('odd.wav', 'say two two')]
    wav(tmp_path / 'odd.wav', speech(99, seconds))
    path = table(tmp_path / 'train.csv', rows)
    assert found(path) == [(kind, 'train.csv', 32)]


def test_a_row_that_cannot_be_read(tmp_path: Path) -> None:
    path = table(tmp_path / 'train.csv', sound_set(tmp_path))
    with path.open('a', encoding='utf-8') as file:
        file.write('train/0.wav,12\n')
    _, report = examined(path)
    assert [(each.kind, each.problem.line) for each in report.findings] == [('row', 5)]
    assert (report.sets[0].rows, report.sets[0].usable) == (4, 3)


# --- several rows, several sets -----------------------------------------------------------------------------------


def test_the_same_audio_in_one_set(tmp_path: Path) -> None:
    """As WAV, as FLAC and in 24 bits: known by what is heard."""
    rows = sound_set(tmp_path)
    samples = np.rint(speech(50) * 32768) / 32768
    for name, subtype in (('a.wav', 'PCM_16'), ('b.flac', 'PCM_16'), ('c.wav', 'PCM_24')):
        wav(tmp_path / name, samples, subtype=subtype)
    rows += [('a.wav', 'hello'), ('b.flac', 'hello'), ('c.wav', 'hello')]
    path = table(tmp_path / 'train.csv', rows)
    _, report = examined(path)
    assert [(each.kind, each.problem.line) for each in report.findings] == [('duplicate', 6), ('duplicate', 7)]
    assert report.findings[0].problem.message == f'the same audio and transcript as {path}:5'


def test_the_same_audio_in_several_sets(tmp_path: Path) -> None:
    """It stays in the last."""
    train, dev = sound_set(tmp_path), sound_set(tmp_path, 'dev', first=10)
    shutil.copy(tmp_path / train[1][0], tmp_path / 'copy.wav')
    paths = [
        table(tmp_path / 'train.csv', train),
        table(tmp_path / 'dev.csv', [*dev, train[1]]),
        table(tmp_path / 'test.csv', [('copy.wav', train[1][1])]),
    ]
    _, report = examined(*paths)
    shared = [(each.set, each.problem.line, each.problem.message) for each in report.findings if each.kind == 'shared']
    message = f'the same audio and transcript as {paths[2]}:2'
    assert shared == [(0, 3, message), (1, 5, message)]
    assert [(each.kind, each.set) for each in report.findings if each.kind != 'shared'] == [
        *[('text', 1), ('text', 2), ('text', 2)]
    ]


def test_the_same_audio_with_different_transcripts(tmp_path: Path) -> None:
    train = sound_set(tmp_path)
    test = [*sound_set(tmp_path, 'test', first=20), (train[0][0], 'else')]
    paths = table(tmp_path / 'train.csv', train), table(tmp_path / 'test.csv', test)
    assert found(*paths) == [('conflict', 'train.csv', 2), ('conflict', 'test.csv', 5)]
    _, report = examined(*paths)
    assert report.findings[1].problem.message == f"'else', and {paths[0]}:2 has the same audio with 'say one one'"


def test_the_same_transcripts_in_several_sets(tmp_path: Path) -> None:
    train, test = sound_set(tmp_path), sound_set(tmp_path, 'test', first=20)
    test[0] = (test[0][0], train[0][1])
    paths = table(tmp_path / 'train.csv', train), table(tmp_path / 'test.csv', test)
    _, report = examined(*paths)
    assert [(each.kind, each.set) for each in report.findings] == [('text', 1)]
    assert report.findings[0].problem.message == f"33% of its transcripts are in {paths[0]}, too, as 'say one one'"


def test_speakers_in_several_sets(tmp_path: Path) -> None:
    train, test = sound_set(tmp_path), sound_set(tmp_path, 'test', first=20)
    paths = [
        table(tmp_path / 'train.csv', train, speaker=['ann', 'bob', 'bob']),
        table(tmp_path / 'test.csv', test, client_id=['bob', 'cid', 'cid']),
    ]
    _, report = examined(*paths)
    assert [(each.kind, each.set) for each in report.findings] == [('speaker', 1)]
    assert report.findings[0].problem.message == f'33% of its rows are of speakers who are in {paths[0]}, too: bob'
    assert report.sets[0].speakers == {'bob': 2, 'ann': 1}


def test_every_kind_has_a_test() -> None:
    source = Path(__file__).read_text(encoding='utf-8')
    assert [kind for kind in KINDS if source.count(f"'{kind}'") == 0] == []
