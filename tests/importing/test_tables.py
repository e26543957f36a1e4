"""Tables as people have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepspeech_training.errors import DataError
from deepspeech_training.importing.tables import read_table


def rows(tmp_path: Path, text: str, delimiter: str = '', **columns: str) -> list[tuple[dict[str, str], str]]:
    path = tmp_path / 't.csv'
    path.write_text(text, encoding='utf-8-sig', newline='')
    return [(row, where.removeprefix(f'{path}:')) for row, where in read_table(path, columns, delimiter)]


@pytest.mark.parametrize('delimiter', [',', ';', '\t', '|'])
def test_columns_by_name_in_any_order(tmp_path: Path, delimiter: str) -> None:
    lines = [['x', 'text', 'file'], ['1', 'hello "you" there', 'a.wav'], ['2', 'é', 'b.wav']]
    content = '\r\n'.join(delimiter.join(line) for line in lines)
    if delimiter in ',;':
        content = content.replace('hello "you" there', f'"hello ""you""{delimiter} there"')
    found = rows(tmp_path, content + '\r\n\r\n', a='file', t='text', s='')
    first = f'hello "you"{delimiter} there' if delimiter in ',;' else 'hello "you" there'
    assert found == [({'a': 'a.wav', 't': first, 's': ''}, '2'), ({'a': 'b.wav', 't': 'é', 's': ''}, '3')]


def test_columns_by_number(tmp_path: Path) -> None:
    assert rows(tmp_path, 'a|x|one\nb|y|two\n', a='1', t='3') == [
        ({'a': 'a', 't': 'one'}, '1'),
        ({'a': 'b', 't': 'two'}, '2'),
    ]


@pytest.mark.parametrize(
    ('text', 'columns', 'message'),
    [
        (
            'file,text\na,b\n',
            {'a': 'path', 't': 'text'},
            r"t\.csv:1: has no column 'path'\. Its first line has 'file', ",
        ),
        ('file,text,text\na,b,c\n', {'t': 'text'}, 'more than once'),
        ('a,b\n', {'t': '3'}, r't\.csv:1: has 2 columns, numbered from 1: there is no column 3'),
        ('a,b\n', {'t': '0'}, 'there is no column 0'),
        ('file,text\na,b\nc,d,e\n', {'t': 'text'}, r"t\.csv:3: has 3 fields, the first line has 2, separated by ','"),
        ('file,text\na\n', {'t': 'text'}, r't\.csv:2: has 1 fields'),
        ('file,text\na,"b\nc,d\n', {'t': 'text'}, r't\.csv:3: cannot be read as a table: .* Is a quotation mark'),
        ('', {'t': 'text'}, 'is empty'),
    ],
)
def test_what_is_wrong(tmp_path: Path, text: str, columns: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        rows(tmp_path, text, **columns)


def test_other_encodings_are_named(tmp_path: Path) -> None:
    path = tmp_path / 't.csv'
    path.write_bytes('file,text\na,ok\nb,é\n'.encode('latin-1'))
    with pytest.raises(DataError, match=r't\.csv:3: is not UTF-8: byte 17 is 0xE9'):
        list(read_table(path, {'t': 'text'}))
