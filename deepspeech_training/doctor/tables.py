"""CSV files with all their columns."""

from __future__ import annotations

import csv
from collections.abc import Iterator

SPEAKER_COLUMNS = ('speaker', 'speaker_id', 'client_id', 'reader')
"""How corpora call it; the first that is there counts."""


def rows_of(path: str) -> Iterator[tuple[int, list[str]]]:
    """The header and the rows of a CSV file that `read_csv` could read, each with the line it begins on."""
    with open(path, encoding='utf-8-sig', newline='') as file:
        reader = csv.reader(file)
        last_line = 0
        for row in reader:
            if row:
                yield last_line + 1, row
            last_line = reader.line_num


def read_speakers(path: str) -> dict[int, str]:
    """Who speaks in each row, by the line it begins on; empty where no column tells."""
    rows = rows_of(path)
    _, header = next(rows)
    names = [name.strip() for name in header]
    column = next((names.index(name) for name in SPEAKER_COLUMNS if name in names), None)
    if column is None:
        return {}
    return {line: row[column] for line, row in rows if len(row) == len(header)}
