"""Bytes of UTF-8 as labels."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepspeech_training.config import DataConfig
from deepspeech_training.errors import DataError
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.alphabets import (
    alphabet_of_bytes,
    alphabet_of_names,
    deserialize_alphabet,
    load_alphabet,
)
from deepspeech_training.text.byte_alphabet import BYTE_NAMES, ByteAlphabet

BYTES = ByteAlphabet()
TEXTS = st.text(st.characters(codec='utf-8', exclude_characters='\0\ufffd'))


def test_labels_are_the_bytes_without_0() -> None:
    """As in DeepSpeech, where label i is the byte i + 1."""
    assert (BYTES.size, BYTES.blank, BYTES.space) == (255, 255, 31)
    assert BYTES.encode('aя ') == [96, 208, 142, 31]
    assert BYTES.decode([96, 208, 142, 31]) == 'aя '
    assert BYTES.labels[0] == '<0x01>'
    assert BYTES.labels[-1] == '<0xFF>'


@settings(deadline=None)
@given(TEXTS)
def test_round_trip(text: str) -> None:
    assert BYTES.unknown(text) == []
    ids = BYTES.encode(text)
    assert len(ids) <= BYTES.labels_per_character * len(text)
    assert BYTES.decode(ids) == text


@pytest.mark.parametrize(('written', 'text'), [(b'\xd0', '\ufffd'), (b'a\xd0b', 'a\ufffdb'), (b'\xffx', '\ufffdx')])
def test_bytes_that_are_no_text_are_replaced(written: bytes, text: str) -> None:
    assert BYTES.decode([byte - 1 for byte in written]) == text


@pytest.mark.parametrize('number', [-1, 255, 1000])
def test_no_label_has_other_numbers(number: int) -> None:
    with pytest.raises(ValueError, match=f'{number} is no label'):
        BYTES.decode([number])


@pytest.mark.parametrize(('character', 'name'), [('\0', 'U\\+0000'), ('\ufffd', 'U\\+FFFD'), ('\ud800', 'U\\+D800')])
def test_characters_that_cannot_be_written(character: str, name: str) -> None:
    assert BYTES.unknown(f'я{character}b{character}') == [character, character]
    with pytest.raises(DataError, match=name):
        BYTES.encode(f'я{character}')


def test_normal_form_of_transcripts() -> None:
    alphabet = load_alphabet(DataConfig(bytes_output_mode=True, alphabet_config_path='is not read'))
    assert alphabet.of_bytes
    assert alphabet.normalize('и\u0306') == 'й'
    apart = load_alphabet(DataConfig(bytes_output_mode=True, unicode_normalization='NFD'))
    assert len(apart.encode(apart.normalize('й'))) == 4
    assert apart.decode(apart.encode(apart.normalize('й'))) == unicodedata.normalize('NFD', 'й')


@pytest.mark.parametrize('labels', [' abc', ['a', 'ch', 'é', 'я'], '字'])
def test_deserialize_takes_back_what_serialize_gave(labels: str | list[str]) -> None:
    assert deserialize_alphabet(Alphabet(labels).serialize(), 'model.pb').labels == tuple(labels)


def test_deserialize_takes_back_bytes() -> None:
    content = BYTES.serialize()
    assert len(content) == 2 + 255 * 5
    assert content[:7] == b'\xff\0\0\0\x01\0\x01'
    alphabet = deserialize_alphabet(content, 'model.pb')
    assert alphabet.of_bytes
    assert 'model.pb' in alphabet.path


def test_as_deepspeech_serializes_them() -> None:
    """In falling order: measured with `ds_ctcdecoder` 0.9.3."""
    rows = [BYTES.serialize()[2 + 5 * i : 7 + 5 * i] for i in range(255)]
    content = b'\xff\0' + b''.join(reversed(rows))
    assert content.startswith(b'\xff\x00\xfe\x00\x01\x00\xff\xfd\x00\x01\x00\xfe')
    assert deserialize_alphabet(content, 'model.pb').of_bytes


def test_deserialize_goes_by_the_numbers_not_the_order() -> None:
    assert deserialize_alphabet(b'\x02\0\x01\0\x01\0b\0\0\x01\0a', 'model.pb').labels == ('a', 'b')


@pytest.mark.parametrize(
    ('content', 'reason'),
    [
        (b'', 'cut off'),
        (b'\x02\0\0\0\x01\0a', 'cut off'),
        (b'\x01\0\0\0\x05\0a', 'cut off'),
        (b'\x01\0\x07\0\x01\0a', 'numbered'),
        (b'\x01\0\0\0\x01\0a!', 'damaged'),
        (b'\x01\0\0\0\x01\0\xd0', 'damaged.*bytes_output_mode'),
    ],
)
def test_deserialize_says_what_is_wrong(content: bytes, reason: str) -> None:
    with pytest.raises(DataError, match=f'model.pb.*{reason}'):
        deserialize_alphabet(content, 'model.pb')


def test_by_names_and_by_what_is_written() -> None:
    assert alphabet_of_names(BYTE_NAMES, 'train-1.json', 'NFC').of_bytes
    assert not alphabet_of_names(BYTE_NAMES[:-1], 'train-1.json').of_bytes
    assert alphabet_of_bytes(BYTES.encoded_labels, 'model').of_bytes
    latin = alphabet_of_bytes([chr(number).encode() for number in range(0x21, 0x100)], 'model')
    assert not latin.of_bytes
    assert latin.decode([0]) == '!'
