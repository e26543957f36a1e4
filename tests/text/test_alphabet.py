"""Alphabet files as people write them, and the numbers of their characters."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepspeech_training.errors import DataError
from deepspeech_training.text.alphabet import Alphabet, describe_character

ENGLISH = (' ', *'abcdefghijklmnopqrstuvwxyz', "'")
CHARACTERS = st.characters(exclude_categories=['Cs'], exclude_characters='\r\n')


def write(folder: Path, content: bytes | str) -> str:
    path = folder / 'alphabet.txt'
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def test_alphabet_of_the_project_is_deepspeechs() -> None:
    alphabet = Alphabet.from_file(str(Path(__file__).parents[2] / 'data' / 'alphabet.txt'))

    assert alphabet.labels == ENGLISH
    assert (alphabet.size, alphabet.blank) == (28, 28)


@pytest.mark.parametrize(
    ('content', 'labels'),
    [
        ('a\nb\n', 'ab'),
        ('a\nb', 'ab'),
        ('a\r\nb\r\n', 'ab'),
        ('a\rb\r', 'ab'),
        ('a\rb\nc\r\nd', 'abcd'),
        ('\ufeffa\nb\n', 'ab'),
        ('\ufeff# comment\na\n', 'a'),
        ('# comment\n \na\n#b\n', ' a'),
        ('a\n\\#\nb\n', 'a#b'),
        ('\\\na\n', '\\a'),
        ('a\n\n\nb\n', 'ab'),
        ('a\n \n', 'a '),
        ('a\n ', 'a '),
        ('ä\nя\n中\n😀\n', 'äя中😀'),
        ('a\n\t\n\u2028\n\x85\n', 'a\t\u2028\x85'),  # only LF, CRLF and CR end a line
    ],
)
def test_reads_files(tmp_path: Path, content: str, labels: str) -> None:
    assert Alphabet.from_file(write(tmp_path, content)).labels == tuple(labels)


def test_keeps_the_path_for_messages(tmp_path: Path) -> None:
    path = write(tmp_path, 'a\n')

    assert Alphabet.from_file(path).path == path


@pytest.mark.parametrize(
    ('content', 'parts'),
    [
        ('a\nb\na\n', ["'a' (U+0061) twice", 'line 1 and line 3']),
        ('# x\n\n \nb\n \n', ["' ' (U+0020) twice", 'line 3 and line 5']),
        ('ab\nc\nab\n', ["'ab' twice", 'line 1 and line 3']),
        ('#\n\\#\n\\#\n', ["'#' (U+0023) twice", 'line 2 and line 3']),
        ('', ['no labels']),
        ('# only a comment\n', ['no labels']),
        ('\ufeff', ['no labels']),
        ('\n\n', ['no labels']),
        ('a\nb \n', ["'b '", 'line 2', 'white space']),
        ('  \na\n', ["'  '", 'line 1', 'white space']),
        (b'a\nb\n\xe4\n', ['not UTF-8', 'line 3', 'byte 4', '0xE4']),
        (b'a\r\nb\r\n\xe4\r\n', ['not UTF-8', 'line 3', 'byte 6', '0xE4']),
        ('a\nb\n'.encode('utf-16'), ['not UTF-8', 'line 1', 'byte 0', '0xFF']),
    ],
)
def test_names_what_is_wrong(tmp_path: Path, content: bytes | str, parts: list[str]) -> None:
    path = write(tmp_path, content)

    with pytest.raises(DataError) as caught:
        Alphabet.from_file(path)

    for part in [path, *parts]:
        assert part in str(caught.value)


def test_missing_file_and_folder_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r'nowhere\.txt.*No such file'):
        Alphabet.from_file(str(tmp_path / 'nowhere.txt'))
    with pytest.raises(DataError, match='directory'):
        Alphabet.from_file(str(tmp_path))


def test_more_labels_than_a_model_can_carry() -> None:
    characters = [chr(code) for code in range(0x10000, 0x10000 + 2**16)]

    assert Alphabet(characters[:-1]).size == 2**16 - 1
    with pytest.raises(DataError, match='65536 labels'):
        Alphabet(characters)


def test_encodes_and_decodes() -> None:
    alphabet = Alphabet(ENGLISH)

    assert alphabet.encode("it's a z") == [9, 20, 27, 19, 0, 1, 0, 26]
    assert alphabet.decode([9, 20, 27, 19, 0, 1, 0, 26]) == "it's a z"
    assert alphabet.encode('') == []
    assert alphabet.decode([]) == ''


@settings(deadline=None)
@given(st.text('abc ', max_size=20))
def test_round_trip(text: str) -> None:
    alphabet = Alphabet('c ab')

    assert alphabet.unknown(text) == []
    assert alphabet.decode(alphabet.encode(text)) == text


@settings(deadline=None)
@given(st.lists(CHARACTERS, min_size=1, unique=True), st.text(CHARACTERS))
def test_unknown_characters_are_those_not_in_the_alphabet(labels: list[str], text: str) -> None:
    alphabet = Alphabet(labels)
    known = [character for character in text if character in labels]

    assert alphabet.unknown(text) == [character for character in text if character not in labels]
    assert alphabet.decode(alphabet.encode(''.join(known))) == ''.join(known)


def test_encode_names_each_unknown_character_once() -> None:
    alphabet = Alphabet('ab', path='my-alphabet.txt')

    with pytest.raises(DataError) as caught:
        alphabet.encode('aäb\u200bä')

    message = str(caught.value)
    assert 'my-alphabet.txt' in message
    assert message.count("'ä' (U+00E4)") == 1
    assert 'U+200B' in message


@pytest.mark.parametrize('number', [2, 3, -1])
def test_decode_refuses_the_blank_and_other_numbers(number: int) -> None:
    with pytest.raises(ValueError, match=f'{number} is no label'):
        Alphabet('ab').decode([0, number])


def test_longest_label_wins() -> None:
    alphabet = Alphabet(['s', 'c', 'sch', 'h', 'e', 'e\u0301', 'ch'])

    assert alphabet.encode('schechse\u0301h') == [2, 4, 6, 0, 5, 3]
    assert alphabet.decode([2, 4, 6, 0, 5, 3]) == 'schechse\u0301h'
    assert alphabet.unknown('schxch\u0301') == ['x', '\u0301']
    with pytest.raises(DataError, match=r"'x' \(U\+0078\)"):
        alphabet.encode('schx')


@settings(deadline=None)
@given(st.lists(st.text('abc', min_size=1, max_size=3), min_size=1, unique=True), st.data())
def test_round_trip_with_long_labels(labels: list[str], data: st.DataObject) -> None:
    alphabet = Alphabet([*labels, *(character for character in 'abc' if character not in labels)])
    text = data.draw(st.text('abc'))

    assert alphabet.unknown(text) == []
    assert alphabet.decode(alphabet.encode(text)) == text


@settings(deadline=None)
@given(st.lists(CHARACTERS, min_size=1, unique=True))
def test_serialized_as_the_clients_read_it(labels: list[str]) -> None:
    content = Alphabet(labels).serialize()

    (count,), rest = struct.unpack_from('<H', content), content[2:]
    read = {}
    while rest:
        number, length = struct.unpack_from('<HH', rest)
        read[number] = rest[4 : 4 + length].decode()
        rest = rest[4 + length :]
    assert count == len(labels)
    assert read == dict(enumerate(labels))


def test_serialized_bytes() -> None:
    assert Alphabet(' я').serialize() == b'\x02\x00\x00\x00\x01\x00 \x01\x00\x02\x00\xd1\x8f'


def test_describes_characters_that_can_and_cannot_be_seen() -> None:
    assert describe_character('ä') == "'ä' (U+00E4)"
    assert describe_character(' ') == "' ' (U+0020)"
    assert describe_character('\u200b') == 'U+200B'
    assert describe_character('\n') == 'U+000A'
    assert describe_character('😀') == "'😀' (U+1F600)"


@pytest.mark.parametrize(('folder', 'size'), [('prompts-en', 28), ('prompts-ru', 34)])
def test_alphabets_of_the_reference_data(deepspeech_data: Path, folder: str, size: int) -> None:
    assert Alphabet.from_file(str(deepspeech_data / folder / 'alphabet.txt')).size == size
