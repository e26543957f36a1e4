"""The corpus maker, run as a user runs it, with the real eSpeak NG."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import subprocess
import sys
import wave
from collections.abc import Sequence
from pathlib import Path

import pytest
from make_espeak_corpus import main

ROOT = Path(__file__).resolve().parents[2]
MAKER = ROOT / 'bin' / 'make_espeak_corpus.py'
HOME = ROOT / 'data' / 'demo' / 'home.gram'
SPLITS = ('train', 'dev', 'test')


def make(*arguments: str | Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(MAKER), *map(str, arguments)], capture_output=True, text=True, timeout=timeout, check=False
    )


def made(*arguments: str | Path) -> str:
    """What a successful run prints."""
    result = make(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(*arguments: str | Path) -> str:
    """What a run that the user got wrong says."""
    result = make(*arguments)
    assert result.returncode == 2, (result.returncode, result.stdout, result.stderr)
    assert 'Traceback' not in result.stderr
    return result.stderr


def contents(folder: Path) -> dict[str, str]:
    """A hash for each file, by its name in the folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob('*'))
        if path.is_file()
    }


def rows(folder: Path, split: str) -> list[dict[str, str]]:
    with open(folder / f'{split}.csv', encoding='utf-8', newline='') as file:
        reader = csv.DictReader(file)
        assert reader.fieldnames == ['wav_filename', 'wav_filesize', 'transcript']
        return list(reader)


def seconds(folder: Path, split: str) -> float:
    total = 0.0
    for row in rows(folder, split):
        with wave.open(str(folder / row['wav_filename'])) as file:
            total += file.getnframes() / file.getframerate()
    return total


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    path = tmp_path / 'sentences.txt'
    path.write_text('# a comment\nyes\nno\n\n  turn   it on \ngood night\n', encoding='utf-8')
    return path


def test_the_seed_alone_decides_every_bit(tmp_path: Path) -> None:
    """Also with flutter and noise in the voices, which eSpeak carries on from one utterance to the next."""
    voices = ('--train_voices', 'm3,f2,whisper,croak', '--dev_voices', 'm2', '--test_voices', 'f5')
    arguments = ('--grammar', HOME, '--utterances', '75', *voices)
    for name, processes, seed in (('one', '1', '7'), ('three', '3', '7'), ('other', '3', '8')):
        made(tmp_path / name, *arguments, '--processes', processes, '--seed', seed)
    one, three, other = (contents(tmp_path / name) for name in ('one', 'three', 'other'))
    assert len(one) == 75 + 4
    assert one == three
    assert one['train/000/train-000000.wav'] != other['train/000/train-000000.wav']
    assert one['train.csv'] != other['train.csv']


def test_files_are_what_the_csv_files_say(tmp_path: Path) -> None:
    folder = tmp_path / 'corpus'
    output = made(folder, '--grammar', HOME, '--utterances', '40', '--dev_share', '0.2', '--test_share', '0.1')
    assert [len(rows(folder, split)) for split in SPLITS] == [28, 8, 4]
    wavs = {str(path.relative_to(folder)) for path in folder.rglob('*.wav')}
    listed = [row for split in SPLITS for row in rows(folder, split)]
    assert {row['wav_filename'] for row in listed} == wavs
    assert len(wavs) == 40
    for row in listed:
        path = folder / row['wav_filename']
        assert path.stat().st_size == int(row['wav_filesize'])
        with wave.open(str(path)) as file:
            assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 16000)
            assert 0.3 < file.getnframes() / 16000 < 10
            assert max(file.readframes(file.getnframes())) > 0
        assert row['transcript'] == row['transcript'].strip().lower()
    assert f'{folder}/train.csv: 28 utterances, 0.0' in output


def test_speakers_of_one_part_are_in_no_other(tmp_path: Path) -> None:
    folder = tmp_path / 'corpus'
    made(folder, '--grammar', HOME, '--utterances', '60')
    note = json.loads((folder / 'corpus.json').read_text(encoding='utf-8'))
    speakers = [{voice.split('+')[1] for voice in note['splits'][split]['voices']} for split in SPLITS]
    assert all(speakers)
    assert not speakers[0] & speakers[1] | speakers[0] & speakers[2] | speakers[1] & speakers[2]


def test_the_same_speaker_in_two_parts_is_refused_even_in_two_languages(tmp_path: Path, sentences: Path) -> None:
    message = refused(tmp_path / 'c', '--sentences', sentences, '--train_voices', 'm1,en-gb+f2', '--test_voices', 'f2')
    assert 'en-us+f2 is the same speaker as en-gb+f2 of --train_voices' in message
    assert not (tmp_path / 'c').exists()


def test_a_list_is_used_evenly_in_each_part(tmp_path: Path, sentences: Path) -> None:
    folder = tmp_path / 'corpus'
    made(folder, '--sentences', sentences, '--utterances', '40')
    transcripts = [row['transcript'] for row in rows(folder, 'train')]
    assert {text: transcripts.count(text) for text in transcripts} == {
        'yes': 8,
        'no': 8,
        'turn it on': 8,
        'good night': 8,
    }


def test_sentences_can_be_unseen_too(tmp_path: Path) -> None:
    folder = tmp_path / 'corpus'
    made(folder, '--grammar', HOME, '--utterances', '90', '--unseen_sentences')
    texts = [{row['transcript'] for row in rows(folder, split)} for split in SPLITS]
    assert not texts[0] & texts[1] | texts[0] & texts[2] | texts[1] & texts[2]
    one_word = tmp_path / 'one.txt'
    one_word.write_text('yes\n', encoding='utf-8')
    message = refused(tmp_path / 'few', '--sentences', one_word, '--utterances', '30', '--unseen_sentences')
    assert 'too few sentences' in message


def test_a_size_in_hours(tmp_path: Path, sentences: Path) -> None:
    folder = tmp_path / 'corpus'
    made(folder, '--sentences', sentences, '--hours', '0.02')
    for split, share in (('train', 0.8), ('dev', 0.1), ('test', 0.1)):
        assert 72 * share <= seconds(folder, split) < 72 * share + 2
    assert len(list(folder.rglob('*.wav'))) == sum(len(rows(folder, split)) for split in SPLITS)


def test_another_language_and_sample_rate(tmp_path: Path) -> None:
    text, alphabet = tmp_path / 'ru.txt', tmp_path / 'alphabet.txt'
    text.write_text('Включи свет!\nКоторый час?\n', encoding='utf-8')
    alphabet.write_text('\n'.join(' абвгдеёжзийклмнопрстуфхцчшщъыьэюя') + '\n', encoding='utf-8')
    folder = tmp_path / 'corpus'
    common = ('--sentences', text, '--language', 'ru', '--utterances', '12', '--sample_rate', '8000')
    message = refused(folder, *common, '--normalize')
    assert "'в' (U+0432) in line 1" in message
    assert '--alphabet_config_path' in message
    made(folder, *common, '--normalize', '--alphabet_config_path', alphabet)
    assert {row['transcript'] for row in rows(folder, 'train')} == {'включи свет', 'который час'}
    with wave.open(str(folder / 'train/000/train-000000.wav')) as file:
        assert file.getframerate() == 8000


def test_what_is_there_is_kept_and_what_is_another_corpus_only_replaced_when_asked(
    tmp_path: Path, sentences: Path
) -> None:
    folder = tmp_path / 'corpus'
    arguments = (folder, '--sentences', sentences, '--utterances', '20')
    made(*arguments)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob('*')}
    assert 'there already' in made(*arguments)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob('*')} == before

    assert 'other utterances, seed' in refused(*arguments[:-1], '12', '--seed', '3')
    assert {path: path.stat().st_mtime_ns for path in folder.rglob('*')} == before

    foreign = folder / 'train' / 'mine.wav'
    foreign.write_bytes(b'mine')
    made(*arguments[:-1], '12', '--overwrite')
    assert len(list(folder.rglob('*-0*.wav'))) == 12
    assert foreign.read_bytes() == b'mine'


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, sentences: Path) -> None:
    folder = tmp_path / 'precious'
    folder.mkdir()
    (folder / 'train.csv').write_text('mine', encoding='utf-8')
    assert 'was not made by this program' in refused(folder, '--sentences', sentences, '--utterances', '20')
    assert contents(folder).keys() == {'train.csv'}
    assert (folder / 'train.csv').read_text(encoding='utf-8') == 'mine'
    (folder / 'corpus.json').write_text('{"made_by": "another"}', encoding='utf-8')
    message = refused(folder, '--sentences', sentences, '--utterances', '20', '--overwrite')
    assert 'not the note of a corpus that this program made' in message
    assert (folder / 'train.csv').read_text(encoding='utf-8') == 'mine'


def test_an_interrupted_corpus_is_made_anew(tmp_path: Path, sentences: Path) -> None:
    folder = tmp_path / 'corpus'
    arguments = (folder, '--sentences', sentences, '--utterances', '20')
    made(*arguments)
    whole = contents(folder)
    note = folder / 'corpus.json'
    note.write_text(note.read_text(encoding='utf-8').replace('"complete": true', '"complete": false'), encoding='utf-8')
    (folder / 'test.csv').unlink()
    (folder / 'train/000/train-000003.wav').write_bytes(b'half')
    made(*arguments)
    assert contents(folder) == whole


def refusals() -> Sequence[tuple[Sequence[str], str]]:
    return (
        (('--sentences', 'nowhere.txt'), 'nowhere.txt: cannot be read: No such file'),
        (('--sentences', os.devnull), 'no sentences'),
        (('--grammar', os.devnull), 'no rules'),
        ((), 'what shall be said?'),
        (('--grammar', str(HOME), '--normalize'), '--normalize is for --sentences'),
        (('--grammar', str(HOME), '--train_voices', 'andi'), "no variant 'andi'; near it: Andy"),
        (('--grammar', str(HOME), '--train_voices', 'en-uk+m3'), "no language 'en-uk'; near it: en-us, en-gb"),
        (('--grammar', str(HOME), '--language', 'klingonese'), "no language 'klingonese'"),
        (('--grammar', str(HOME), '--train_voices', 'm1,m1'), "'m1' is there twice"),
        (('--grammar', str(HOME), '--dev_voices', ','), '--dev_voices names no voice'),
        (('--grammar', str(HOME), '--rates', '79'), '79 is not between 80 and 450'),
        (('--grammar', str(HOME), '--pitches', '50,low'), "'50,low' is no list of whole numbers"),
        (('--grammar', str(HOME), '--utterances', '0'), '0 is not between 1 and'),
        (('--grammar', str(HOME), '--utterances', '4'), '4 are too few'),
        (('--grammar', str(HOME), '--hours', '-1'), '-1.0 is not between 0 and'),
        (('--grammar', str(HOME), '--dev_share', '0.5', '--test_share', '0.5'), 'leave nothing for train'),
        (('--grammar', str(HOME), '--sample_rate', '16'), '16 is not between'),
        (('--grammar', str(HOME), '--processes', '-2'), '-2 is negative'),
    )


@pytest.mark.parametrize(('arguments', 'message'), refusals(), ids=[message for _, message in refusals()])
def test_wrong_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], message: str
) -> None:
    folder = tmp_path / 'corpus'
    assert main([str(folder), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not folder.exists()


def test_a_sentence_of_which_espeak_says_nothing_is_named(tmp_path: Path) -> None:
    path = tmp_path / 'silent.txt'
    path.write_text('...\n', encoding='utf-8')
    message = refused(tmp_path / 'c', '--sentences', path, '--alphabet_config_path', '', '--utterances', '12')
    assert "says nothing for '...'" in message


def test_all_voices_are_listed() -> None:
    output = made('--list_voices')
    assert 'en-gb-scotland' in output
    assert 'Variants (the speakers): plain, Alex' in output
