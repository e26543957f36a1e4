"""DeepSpeech's sample databases (SDB): audio and transcripts of many utterances in one file.

    file   = 'SAMPLEDB', length, meta data (JSON), length, number of samples, sample, sample, ..., index
    sample = length, (length, bytes) for each column
    index  = length, number of samples, where each begins in the file

All numbers are big-endian: of 4 bytes in and before samples, of 8 bytes elsewhere. The meta data name the columns, as
in {"schema": [{"content": "speech", "mime-type": "audio/wav"}, {"content": "transcript", "mime-type": "text/plain"}]}.
"""

from __future__ import annotations

from typing import Any, BinaryIO

from deepspeech_training import storage
from deepspeech_training.data.json_lines import parse_object
from deepspeech_training.data.manifest import Problem, Sample
from deepspeech_training.data.sources import OPUS, Source
from deepspeech_training.errors import DataError

MAGIC = b'SAMPLEDB'
SPEECH, TRANSCRIPT, SPEAKER = ('speech', 'audio'), ('transcript',), ('speaker',)
PACKINGS = {'audio/wav': '', 'application/vnd.mozilla.opus': OPUS}
LONGEST_META = 1 << 20  # bytes
LONGEST_TEXT = 1 << 20
SHORT, LONG = 4, 8  # bytes of a number


class _Columns:
    """Which columns a database has. Raises `DataError` without the file's name."""

    def __init__(self, meta: dict[str, Any], labeled: bool) -> None:
        schema = meta.get('schema')
        if not isinstance(schema, list) or not all(isinstance(column, dict) for column in schema):
            raise DataError(f'its meta data name no columns: schema is {schema!r}')
        contents = [column.get('content') for column in schema]
        self.count = len(schema)
        speech = _first(contents, SPEECH)
        if speech is None:
            raise DataError(f'has no column with speech; its columns are {contents}')
        self.speech = speech
        self.transcript = _first(contents, TRANSCRIPT)
        self.speaker = _first(contents, SPEAKER)
        if labeled and self.transcript is None:
            raise DataError(f'has no column with transcripts; its columns are {contents}')
        mime_type = schema[speech].get('mime-type')
        if mime_type not in PACKINGS:
            raise DataError(f'its audio is {mime_type!r}, and can only be {" or ".join(PACKINGS)}')
        self.packing = PACKINGS[mime_type]


def _first(contents: list[Any], wanted: tuple[str, ...]) -> int | None:
    return next((number for number, content in enumerate(contents) if content in wanted), None)


def read_sample_database(path: str, *, labeled: bool = True) -> tuple[list[Sample], list[Problem]]:
    """The samples of a database in its order, and what is wrong with the others.

    Raises `DataError` for a file that cannot be read or is cut off, and for audio of a type that cannot be decoded.
    """
    samples: list[Sample] = []
    problems: list[Problem] = []
    try:
        size = storage.status(path).size
        with storage.open_to_read(path) as file:
            columns, offsets, end = _read_frame(path, file, size, labeled)
            for number, offset in enumerate(offsets, start=1):
                try:
                    samples.append(_read_sample(path, file, number, offset, end, columns))
                except DataError as error:
                    problems.append(Problem(path, number, f'{path}: sample {number}', str(error), is_entry=True))
    except OSError as error:
        raise DataError(f'{path}: cannot be read: {error.strerror}') from error
    return samples, problems


def _read_frame(path: str, file: BinaryIO, size: int, labeled: bool) -> tuple[_Columns, list[int], int]:
    """The columns, where each sample begins, and where the last one ends."""
    if file.read(len(MAGIC)) != MAGIC:
        raise DataError(f'{path}: is no sample database')
    length = _number(file, LONG)
    if length > LONGEST_META or file.tell() + length > size:
        raise DataError(f'{path}: is cut off or damaged: its meta data have {length} bytes')
    try:
        columns = _Columns(parse_object(file.read(length)), labeled)
    except DataError as error:
        raise DataError(f'{path}: {error}') from None
    length, count = _number(file, LONG), _number(file, LONG)
    end = file.tell() - LONG + length
    if not length:
        raise DataError(f'{path}: was not finished: it has no index. Write it again')
    if end + 2 * LONG + count * LONG > size:
        raise DataError(
            f'{path}: is cut off: {count} samples and their index take {end + 2 * LONG + count * LONG} bytes, and the '
            f'file has {size}'
        )
    file.seek(end)
    index_length, index_count = _number(file, LONG), _number(file, LONG)
    if index_count != count or index_length != LONG + count * LONG:
        raise DataError(f'{path}: is damaged: its index is of {index_count} samples, not {count}')
    index = file.read(count * LONG)
    return columns, [int.from_bytes(index[at : at + LONG], 'big') for at in range(0, len(index), LONG)], end


def _read_sample(path: str, file: BinaryIO, number: int, offset: int, end: int, columns: _Columns) -> Sample:
    """Raises `DataError` that says what is wrong with the sample."""
    file.seek(offset)
    stop = offset + SHORT + _number(file, SHORT)
    if stop > end:
        raise DataError(f'is damaged: it begins at byte {offset} and would end at {stop}, behind all samples ({end})')
    place, speech, texts = offset + SHORT, (0, 0), {}
    for column in range(columns.count):
        file.seek(place)
        length = _number(file, SHORT)
        place += SHORT + length
        if place > stop:
            raise DataError(f'is damaged: column {column + 1} would end at byte {place}, behind the sample ({stop})')
        if column == columns.speech:
            speech = (place - length, length)
        elif column in (columns.transcript, columns.speaker):
            texts[column] = file.read(min(length, LONGEST_TEXT))
    try:
        decoded = {column: text.decode('utf-8') for column, text in texts.items()}
    except UnicodeDecodeError:
        raise DataError('its transcript is not UTF-8') from None
    start, size = speech
    return Sample(
        f'{path}: sample {number}',
        size,
        decoded.get(-1 if columns.transcript is None else columns.transcript, ''),
        path,
        number,
        source=Source(path, start, size, columns.packing),
        speaker=decoded.get(-1 if columns.speaker is None else columns.speaker, ''),
    )


def _number(file: BinaryIO, size: int) -> int:
    return int.from_bytes(file.read(size), 'big')
