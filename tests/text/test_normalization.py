"""One letter in two Unicode spellings: alphabet files, transcripts and checkpoints."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from deepspeech_training.checkpoints.fitting import Geometry, check_description
from deepspeech_training.config import DataConfig, FeatureConfig
from deepspeech_training.data.checks import check_data
from deepspeech_training.errors import CheckpointError, DataError
from deepspeech_training.text.alphabet import Alphabet, normalize

ONE, TWO = '\u00e9', 'e\u0301'  # é in one character, and in two


def alphabet_file(folder: Path, *labels: str) -> str:
    path = folder / 'alphabet.txt'
    path.write_text('\n'.join(labels) + '\n', encoding='utf-8')
    return str(path)


def transcripts(folder: Path, alphabet: Alphabet, *texts: str) -> list[str]:
    """`texts` as training and test reports see them, when they have passed all checks."""
    soundfile.write(folder / 'a.wav', np.zeros(16000), 16000)
    path = folder / 'a.csv'
    with path.open('w', newline='', encoding='utf-8') as file:
        csv.writer(file).writerows([('wav_filename', 'transcript'), *(('a.wav', text) for text in texts)])
    data = DataConfig(train_files=(str(path),))
    sets = check_data(data, FeatureConfig(), alphabet, save_dir=str(folder), show_progressbar=False)
    return [sample.transcript for sample in sets.train]


@pytest.mark.parametrize('listed', [ONE, TWO])
@pytest.mark.parametrize(('form', 'expected'), [('NFC', ONE), ('NFD', TWO)])
def test_alphabet_and_transcripts_come_into_one_form(tmp_path: Path, listed: str, form: str, expected: str) -> None:
    alphabet = Alphabet.from_file(alphabet_file(tmp_path, 'c', listed, 'a'), form)
    assert alphabet.labels == ('c', expected, 'a')
    found = transcripts(tmp_path, alphabet, f'ca{ONE}', f'ca{TWO}')
    assert found == [f'ca{expected}'] * 2
    assert [alphabet.encode(text) for text in found] == [[0, 2, 1]] * 2


def test_none_leaves_everything_as_it_is(tmp_path: Path) -> None:
    alphabet = Alphabet.from_file(alphabet_file(tmp_path, ONE, TWO), 'none')
    assert alphabet.labels == (ONE, TWO)
    assert transcripts(tmp_path, alphabet, TWO, ONE) == [TWO, ONE]


def test_two_lines_that_are_one_character(tmp_path: Path) -> None:
    path = alphabet_file(tmp_path, 'a', ONE, '# comment', TWO)
    with pytest.raises(DataError) as caught:
        Alphabet.from_file(path, 'NFC')
    assert "'é' (U+00E9) twice in the normal form of --unicode_normalization=NFC, at line 2 and line 4" in str(
        caught.value
    )
    Alphabet.from_file(path, 'none')


@pytest.mark.parametrize(
    ('labels', 'form', 'text', 'helps'),
    [
        (('e', '\u0301'), 'NFC', TWO, 'NFD'),  # an alphabet with accents of their own
        ((TWO,), 'none', ONE, 'NFC'),
        (('e', ONE), 'none', TWO, 'NFC'),
        (('e', '\u0301'), 'none', ONE, 'NFD'),
        ((ONE,), 'NFC', '\u00fc', ''),
    ],
)
def test_the_message_says_which_form_would_help(
    tmp_path: Path, labels: tuple[str, ...], form: str, text: str, helps: str
) -> None:
    alphabet = Alphabet.from_file(alphabet_file(tmp_path, *labels), form)
    with pytest.raises(DataError, match='not in the alphabet') as caught:
        transcripts(tmp_path, alphabet, text)
    told = f'With --unicode_normalization {helps} the alphabet spells 1 of these transcripts'
    assert (told in str(caught.value)) == bool(helps)
    if helps:
        alphabet = Alphabet.from_file(alphabet_file(tmp_path, *labels), helps)
        assert len(transcripts(tmp_path, alphabet, text)) == 1


def test_a_checkpoint_fits_in_either_spelling() -> None:
    there = Geometry(4, 2, 'old.txt', ('a', TWO), {}, 'none').to_json()
    assert there['unicode_normalization'] == 'none'
    check_description('train-1', there, Geometry(4, 2, 'new.txt', ('a', ONE), {}, 'NFC'))
    with pytest.raises(CheckpointError, match='number 2 is'):
        check_description('train-1', there, Geometry(4, 2, 'new.txt', ('a', 'e'), {}, 'NFC'))


@given(st.text())
def test_forms_are_stable(text: str) -> None:
    assert normalize(text, 'none') == text
    for form in ('NFC', 'NFD'):
        assert normalize(normalize(text, form), form) == normalize(text, form)
        assert normalize(normalize(text, 'NFD'), form) == normalize(text, form)
