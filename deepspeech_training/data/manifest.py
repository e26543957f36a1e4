"""CSV files that list utterances, in DeepSpeech's format."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass

from deepspeech_training import storage
from deepspeech_training.data.sources import Source
from deepspeech_training.errors import DataError

NAME_COLUMN = 'wav_filename'
SIZE_COLUMN = 'wav_filesize'
TRANSCRIPT_COLUMN = 'transcript'
SPEAKER_COLUMNS = ('speaker', 'speaker_id', 'client_id', 'user_id')
"""What corpora call it; the first that is there counts."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One utterance."""

    path: str  # of the audio file; with a `source`, a name that no other audio has
    size: int  # bytes, as the data set says; decides the order of training; 0 where unknown
    transcript: str
    csv: str  # the data set it is listed in
    line: int  # where it begins there, from 1; in a container, its number
    frames: int = 0  # of its features, as far as the audio was looked at: without augmentation
    source: Source | None = None  # of audio that is no local file of its own
    speaker: str = ''  # where known
    seconds: float = 0.0  # of a whole file, where the data set says that; nothing depends on it

    @property
    def place(self) -> str:
        """Where it is listed, for messages: 'train.csv:12', 'train.tar: KEY.wav'."""
        return self.path if self.source and self.source.is_inside else f'{self.csv}:{self.line}'

    def problem(self, message: str) -> Problem:
        """That the sample cannot be used, because of `message`."""
        return Problem(self.csv, self.line, self.path, message, bool(self.source and self.source.is_inside))


@dataclass(frozen=True)
class Problem:
    """Why one row of a data set cannot be used."""

    csv: str
    line: int
    path: str  # the audio file; empty where the row does not say
    message: str
    is_entry: bool = False  # of a container, which `path` names

    def __str__(self) -> str:
        where = self.path if self.is_entry else f'{self.csv}:{self.line}'
        return (
            f'{where}: {self.path}: {self.message}' if self.path and not self.is_entry else f'{where}: {self.message}'
        )


def read_csv(path: str, *, labeled: bool = True) -> tuple[list[Sample], list[Problem]]:
    """The rows of a CSV file that can be read, in its order, and what is wrong with the others.

    UTF-8 with or without a byte order mark; lines end in LF, CRLF or CR; empty lines do not count. The first row names
    the columns: `wav_filename` (relative to the CSV file's folder), `transcript` and `wav_filesize` (bytes; where the
    column or a value is missing, the file's size counts). A speaker may be named in one of `SPEAKER_COLUMNS`. Others
    are ignored. Transcripts stay as they are, white space included; without `labeled` they may be missing. Whether the
    audio files can be used is not looked at.

    Raises `DataError` for a file that cannot be read, is empty, is not UTF-8, lacks a column, or has no rows.
    """
    rows = _rows(path, read_text(path))
    _, header = next(rows, (0, []))
    columns = _columns(path, header, labeled)
    folder = storage.folder_of(path)
    samples: list[Sample] = []
    problems: list[Problem] = []
    for lines, row in rows:
        if len(row) != len(header):
            message = f'has {len(row)} fields, the header names {len(header)} columns{_comma_hint(row, header)}'
            problems.append(Problem(path, lines.start, '', message))
            continue
        fields = {name: row[position] for name, position in columns.items()}
        if found := _parse(path, folder, lines, fields, samples):
            problems.append(found)
    if not samples and not problems:
        raise DataError(f'{path}: has a header but no rows: no utterances to use')
    return samples, problems


def _parse(path: str, folder: str, lines: range, fields: dict[str, str], samples: list[Sample]) -> Problem | None:
    """Adds a row's sample to `samples`, or says why there is none. `lines` are those the row extends over."""
    name, transcript = fields[NAME_COLUMN], fields.get(TRANSCRIPT_COLUMN, '')
    if not name.strip() or '\0' in name:
        return Problem(path, lines.start, '', f'names no audio file: {NAME_COLUMN} is {name!r}')
    audio = audio_path(folder, name)
    if '\n' in transcript or '\r' in transcript:
        message = f'the transcript goes on to line {lines.stop - 1}. Is a quotation mark left open?'
        return Problem(path, lines.start, audio, message)
    size_text = fields.get(SIZE_COLUMN, '').strip()
    if size_text and not (size_text.isascii() and size_text.isdigit()):
        return Problem(path, lines.start, audio, f'{SIZE_COLUMN} is {size_text!r}, not a number of bytes')
    size = int(size_text) if size_text else file_size(audio)
    speaker = next((fields[name] for name in SPEAKER_COLUMNS if name in fields), '')
    samples.append(Sample(audio, size, transcript, path, lines.start, source=source_of(audio), speaker=speaker))
    return None


def audio_path(folder: str, name: str) -> str:
    """What a name in a data set means, of which `folder` is the one that it is in, as `storage.folder_of` gives it."""
    return name if os.path.isabs(name) or storage.is_remote(name) else folder + name


def source_of(path: str) -> Source | None:
    """Of an audio file of its own, by its path or address."""
    return Source(path) if storage.is_remote(path) else None


def read_text(path: str) -> str:
    """The text of a file in UTF-8, with or without a byte order mark. Raises `DataError`, also where it is empty."""
    try:
        content = storage.read(path)
    except OSError as error:
        raise DataError(f'{path}: cannot be read: {error.strerror}') from error
    try:
        text = content.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        # `error.object` lacks the byte order mark; offsets are those of the file.
        offset = error.start + len(content) - len(error.object)
        line = len(io.BytesIO(content[: offset + 1]).readlines())
        raise DataError(
            f'{path}:{line}: is not UTF-8: byte {offset} of the file is 0x{content[offset]:02X}. Save it as UTF-8'
        ) from error
    if not text.strip():
        raise DataError(f'{path}: is empty')
    return text


def _rows(path: str, text: str) -> Iterator[tuple[range, list[str]]]:
    """The rows of a CSV file that are not blank, each with the lines it extends over (counted from 1)."""
    reader = csv.reader(io.StringIO(text, newline=''))
    last_line = 0
    try:
        for row in reader:
            if row:
                yield range(last_line + 1, reader.line_num + 1), row
            last_line = reader.line_num
    except csv.Error as error:
        raise DataError(
            f'{path}:{last_line + 1}: cannot be read as CSV: {error}. Is a quotation mark left open?'
        ) from error


def _columns(path: str, header: list[str], labeled: bool) -> dict[str, int]:
    """The position of each column that is used."""
    names = [name.strip() for name in header]
    needed = (NAME_COLUMN, TRANSCRIPT_COLUMN) if labeled else (NAME_COLUMN,)
    missing = [name for name in needed if name not in names]
    if missing:
        hint = next((f' (separated by {mark!r}?)' for mark in ';\t|' if mark in ''.join(header)), '')
        raise DataError(
            f'{path}: lacks the column {" and the column ".join(missing)}. Its first line has {_quoted(names)}{hint}. '
            f'Needed {"are" if labeled else "is"} {" and ".join(needed)}, best with {SIZE_COLUMN}, separated by commas'
        )
    for name in (NAME_COLUMN, SIZE_COLUMN, TRANSCRIPT_COLUMN):
        if names.count(name) > 1:
            raise DataError(f'{path}: has the column {name} more than once. Its first line has {_quoted(names)}')
    used = (NAME_COLUMN, SIZE_COLUMN, TRANSCRIPT_COLUMN, *SPEAKER_COLUMNS)
    return {name: names.index(name) for name in used if name in names}


def _quoted(names: list[str]) -> str:
    return ', '.join(map(repr, names))


def _comma_hint(row: list[str], header: list[str]) -> str:
    return '; a transcript with a comma needs quotation marks' if len(row) > len(header) else ''


def file_size(path: str) -> int:
    """Bytes, 0 for a file that is not there or not here: that is found out when the audio is looked at."""
    if storage.is_remote(path):
        return 0
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
