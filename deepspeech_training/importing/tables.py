"""Transcripts in tables: comma, tab or otherwise separated, with or without a line that names the columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path

from deepspeech_training.errors import DataError
from deepspeech_training.importing.corpus import read_text

DELIMITERS = ',\t;|'
QUOTED = ',;'  # with the others, a quotation mark is a character as any other


def read_table(path: Path, columns: Mapping[str, str], delimiter: str = '') -> Iterator[tuple[dict[str, str], str]]:
    """The rows of a table, as the values of `columns`, and where each is (`PATH:12`).

    `columns` says for each key which column it is: a name of the first line, or a number from 1 if the table has no
    such line; '' for a column that is not wanted, whose values are ''. Without a `delimiter` it is the one that occurs
    most often in the first line. Raises `DataError` for a column that is not there, and for rows with another number
    of fields.
    """
    text = read_text(path)
    first = text.partition('\n')[0]
    delimiter = delimiter or max(DELIMITERS, key=first.count)
    text_stream = io.StringIO(text, newline='')
    if delimiter in QUOTED:
        reader = csv.reader(text_stream, delimiter=delimiter, strict=True)
    else:
        reader = csv.reader(text_stream, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    wanted = {key: name for key, name in columns.items() if name}
    places: dict[str, int] = {}
    width = 0
    try:
        for row in reader:
            if not any(field.strip() for field in row):
                continue
            where = f'{path}:{reader.line_num}'
            if not places:
                places, width = _places(where, wanted, row), len(row)
                if _has_header(wanted):
                    continue
            if len(row) > width or len(row) <= max(places.values()):  # some leave out empty ones at the end
                raise DataError(
                    f'{where}: has {len(row)} fields, the first line has {width}, separated by {delimiter!r}'
                )
            yield {key: row[places[key]] if key in places else '' for key in columns}, where
    except csv.Error as error:
        raise DataError(
            f'{path}:{reader.line_num}: cannot be read as a table: {error}. Is a quotation mark left open?'
        ) from error
    if not places:
        raise DataError(f'{path}: is empty')


def _has_header(wanted: Mapping[str, str]) -> bool:
    return not all(name.isdecimal() for name in wanted.values())


def _places(where: str, wanted: Mapping[str, str], first: list[str]) -> dict[str, int]:
    """The position of each wanted column."""
    if not _has_header(wanted):
        high = max(map(int, wanted.values()))
        low = min(map(int, wanted.values()))
        if low < 1 or high > len(first):
            raise DataError(
                f'{where}: has {len(first)} columns, numbered from 1: there is no column {high if low else 0}'
            )
        return {key: int(name) - 1 for key, name in wanted.items()}
    names = [name.strip() for name in first]
    for name in wanted.values():
        if names.count(name) != 1:
            told = 'has the column {!r} more than once' if name in names else 'has no column {!r}'
            raise DataError(f'{where}: {told.format(name)}. Its first line has {", ".join(map(repr, names))}')
    return {key: names.index(name) for key, name in wanted.items()}
