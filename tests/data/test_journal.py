"""Tables of several writers: what is whole is read, once, by everyone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from deepspeech_training.data.journal import HEADER_SIZE, Journal, RowIndex, sealed

ROW = np.dtype([('key', 'V16'), ('value', '<i8'), ('crc', '<u4')])
TITLE = b'a table'


def row_of(key: bytes, value: int) -> np.ndarray:
    row = np.zeros([], ROW)
    row['key'], row['value'] = key.ljust(16, b'.'), value
    return row


def journal(folder: Path, title: bytes = TITLE) -> Journal:
    return Journal(str(folder), '.rows', ROW, title)


def values(table: Journal) -> list[int]:
    return [int(value) for _, rows in table.read_new() for value in rows['value']]


def test_rows_are_read_once_and_by_all(tmp_path: Path) -> None:
    one, other, reader = journal(tmp_path), journal(tmp_path), journal(tmp_path)
    one.append(row_of(b'a', 1))
    other.append(row_of(b'b', 2))
    assert sorted(values(reader)) == [1, 2]
    assert values(reader) == []
    one.append(row_of(b'c', 3))
    assert values(reader) == [3]
    assert values(one) == [2], 'its own rows are no news'
    assert one.open() != other.open()


def test_a_file_has_one_writer_after_the_other(tmp_path: Path) -> None:
    for number in range(3):
        table = journal(tmp_path)
        table.append(row_of(b'a', number))
        path = table.open()
        del table  # closes the file, as the end of a process does
    assert [entry.name for entry in tmp_path.iterdir()] == [os.path.basename(path)]
    assert values(journal(tmp_path)) == [0, 1, 2]


def test_files_of_other_hosts_are_read_but_left_alone(tmp_path: Path) -> None:
    table = journal(tmp_path)
    table.append(row_of(b'a', 1))
    foreign = tmp_path / 'somewhere-else-1.rows'
    Path(table.open()).rename(foreign)
    del table
    again = journal(tmp_path)
    again.append(row_of(b'b', 2))
    assert again.open() != str(foreign)
    assert sorted(values(journal(tmp_path))) == [1, 2]


@pytest.mark.parametrize('cut', range(1, ROW.itemsize))
def test_what_is_half_written_is_not_read_and_then_filled_up(tmp_path: Path, cut: int) -> None:
    table = journal(tmp_path)
    table.append(row_of(b'a', 1))
    path = Path(table.open())
    del table
    with path.open('ab') as file:
        file.write(sealed(row_of(b'b', 2))[:cut])
    reader = journal(tmp_path)
    assert values(reader) == [1]
    after = journal(tmp_path)
    after.append(row_of(b'c', 3))
    assert after.open() == str(path)
    assert values(reader) == [3]
    assert values(journal(tmp_path)) == [1, 3]


@pytest.mark.parametrize('byte', [0, 20, ROW.itemsize - 1])
def test_a_row_with_a_flipped_bit_is_not_read(tmp_path: Path, byte: int) -> None:
    table = journal(tmp_path)
    for number in range(3):
        table.append(row_of(b'a', number))
    path = Path(table.open())
    content = bytearray(path.read_bytes())
    content[HEADER_SIZE + ROW.itemsize + byte] ^= 8
    path.write_bytes(content)
    assert values(journal(tmp_path)) == [0, 2]


@pytest.mark.parametrize('content', [b'', b'a tab', TITLE, b'else'.ljust(HEADER_SIZE + 100, b'\0')])
def test_other_files_are_neither_read_nor_written(tmp_path: Path, content: bytes) -> None:
    table = journal(tmp_path)
    path = Path(table.open())
    del table
    path.write_bytes(content)
    after = journal(tmp_path)
    after.append(row_of(b'a', 1))
    assert path.read_bytes() == content
    assert values(journal(tmp_path)) == [1]


def test_a_cut_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    table = journal(tmp_path)
    for number in range(3):
        table.append(row_of(b'a', number))
    os.truncate(table.open(), HEADER_SIZE + ROW.itemsize + 3)
    assert values(journal(tmp_path)) == [0]


def test_erased_rows_are_gone(tmp_path: Path) -> None:
    table = journal(tmp_path)
    for number in range(3):
        table.append(row_of(b'a', number))
    table.erase(table.open(), row_of(b'a', 1))
    assert values(journal(tmp_path)) == [0, 2]


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    table = journal(tmp_path / 'nowhere')
    assert values(table) == []
    with pytest.raises(OSError, match='nowhere'):
        table.append(row_of(b'a', 1))


def test_a_child_of_another_program_does_not_hold_the_lock(tmp_path: Path) -> None:
    table = journal(tmp_path)
    path = table.open()
    child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)
    del table
    assert journal(tmp_path).open() == path
    child.communicate(b'\n')


def test_index_finds_the_newest_of_many(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    keys = random.bytes(16 * 20_000)
    rows = np.zeros(20_000, ROW)
    rows['key'] = np.frombuffer(keys, 'V16')
    rows['value'] = np.arange(20_000)
    index = RowIndex(ROW)
    assert index.get(keys[:16]) is None
    index.add(rows[:9000])  # at once
    for start in range(9000, 20_000, 100):  # and bit by bit
        index.add(rows[start : start + 100])
    assert len(index) == 20_000

    def value(number: int) -> int | None:
        row = index.get(keys[16 * number : 16 * number + 16])
        return None if row is None else int(row['value'])

    assert [value(number) for number in range(20_000)] == list(range(20_000))
    newer = rows[[5, 19_999]].copy()
    newer['value'] = [-5, -6]
    index.add(newer)
    assert (value(5), value(19_999), value(4)) == (-5, -6, 4)
    index.remove(keys[80:96])
    assert value(5) == 5, 'the older one is there again'
    index.remove(keys[80:96])
    index.remove(keys[80:96])
    assert value(5) is None
    assert (value(4), value(6)) == (4, 6)


def test_index_tells_keys_with_the_same_beginning_apart() -> None:
    index = RowIndex(ROW)
    rows = np.zeros(6000, ROW)
    rows['value'] = np.arange(6000)
    rows['key'] = [b'the same' + number.to_bytes(8, 'big') for number in range(6000)]
    index.add(rows)
    for number in (0, 3, 5999):
        row = index.get(b'the same' + number.to_bytes(8, 'big'))
        assert row is not None
        assert row['value'] == number
    assert index.get(b'the same' + bytes([1] * 8)) is None
