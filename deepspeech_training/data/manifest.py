"""CSV files that list utterances, in DeepSpeech's format."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import dataclass

from deepspeech_training.errors import DataError

REQUIRED_COLUMNS = ('wav_filename', 'transcript')
SIZE_COLUMN = 'wav_filesize'


@dataclass(frozen=True)
class Sample:
    """One utterance."""

    path: str  # of the audio file
    size: int  # bytes, as the CSV file says; decides the order of training
    transcript: str
    csv: str  # the file it is listed in
    line: int  # where it begins there, from 1


@dataclass(frozen=True)
class Problem:
    """Why one row of a CSV file cannot be used."""

    csv: str
    line: int
    path: str  # the audio file; empty where the row does not say
    message: str

    def __str__(self) -> str:
        where = f'{self.csv}:{self.line}'
        return f'{where}: {self.path}: {self.message}' if self.path else f'{where}: {self.message}'


def read_csv(path: str) -> tuple[list[Sample], list[Problem]]:
    """The rows of a CSV file that can be read, in its order, and what is wrong with the others."""
    try:
        with open(path, 'rb') as file:
            text = file.read().decode('utf-8-sig')
    except OSError as error:
        raise DataError(f'{path}: cannot be read: {error.strerror}') from error
    except UnicodeDecodeError as error:
        raise DataError(f'{path}: is not UTF-8') from error
    rows = csv.DictReader(io.StringIO(text, newline=''))
    samples = []
    for row in rows:
        name = os.path.join(os.path.dirname(path), row['wav_filename'])
        size = int(row[SIZE_COLUMN]) if SIZE_COLUMN in row else os.path.getsize(name)
        samples.append(Sample(name, size, row['transcript'], path, rows.line_num))
    return samples, []
