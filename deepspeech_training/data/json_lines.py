"""JSON lines that list utterances, as NeMo's manifests do: one object a line."""

from __future__ import annotations

import json
import math
from typing import Any

from deepspeech_training import storage
from deepspeech_training.data.manifest import Problem, Sample, audio_path, file_size, read_text, source_of
from deepspeech_training.data.sources import Source
from deepspeech_training.errors import DataError

AUDIO_KEY, TEXT_KEY, DURATION_KEY, OFFSET_KEY = 'audio_filepath', 'text', 'duration', 'offset'
SPEAKER_KEYS = ('speaker', 'speaker_id')
SEGMENT_BYTES = 32000
"""What a second of a longer recording counts as in the order of training: as in a WAV file of 16 kHz."""


def read_json_lines(path: str, *, labeled: bool = True) -> tuple[list[Sample], list[Problem]]:
    """The lines that can be read, in their order, and what is wrong with the others.

    UTF-8; empty lines do not count. `audio_filepath` is relative to the manifest's folder, and `text` may be missing
    without `labeled`. With `offset` (seconds), `duration` is what is used of a longer recording; without, the
    whole file is, and `duration` only said of it. `speaker` may be given.

    Raises `DataError` for a file that cannot be read, is empty, or not UTF-8.
    """
    text = read_text(path)
    folder = storage.folder_of(path)
    samples: list[Sample] = []
    problems: list[Problem] = []
    for number, line in enumerate(text.split('\n'), start=1):
        if not line.strip():
            continue
        try:
            samples.append(_parse(path, folder, number, line, labeled))
        except DataError as error:
            problems.append(Problem(path, number, '', str(error)))
    return samples, problems


def _parse(path: str, folder: str, number: int, line: str, labeled: bool) -> Sample:
    """Raises `DataError` that says what is wrong with the line."""
    row = parse_object(line)
    name = text_of(row, AUDIO_KEY)
    if not name.strip():
        raise DataError(f'names no audio file: {AUDIO_KEY} is {name!r}')
    transcript = text_of(row, TEXT_KEY) if labeled or TEXT_KEY in row else ''
    audio = audio_path(folder, name)
    source, size = source_of(audio), 0
    duration, offset = seconds_of(row, DURATION_KEY), seconds_of(row, OFFSET_KEY)
    if duration == 0:
        raise DataError(f'{DURATION_KEY} is {row[DURATION_KEY]!r}, no time at all')
    if offset is not None:
        if duration is None:
            raise DataError(f'has {OFFSET_KEY} but no {DURATION_KEY}: how much of the recording is it?')
        source, size = Source(audio, offset=offset, duration=duration), round(duration * SEGMENT_BYTES)
        audio = f'{audio} [{offset} s + {duration} s]'
    else:
        size = file_size(audio)
    seconds = duration if duration is not None and offset is None else 0.0
    return Sample(audio, size, transcript, path, number, source=source, speaker=speaker_of(row), seconds=seconds)


def parse_object(text: str | bytes) -> dict[str, Any]:
    """A JSON object. Raises `DataError` that says what it is instead."""
    try:
        row = json.loads(text)
    except json.JSONDecodeError as error:
        near = error.doc[error.pos : error.pos + 20].strip()
        raise DataError(
            f'is no JSON: {error.msg} in column {error.colno}' + (f', at {near!r}' if near else '')
        ) from None
    except UnicodeDecodeError:
        raise DataError('is no JSON: it is not UTF-8') from None
    except (ValueError, RecursionError):  # numbers of thousands of digits, thousands of brackets
        raise DataError('is no JSON that makes sense') from None
    if not isinstance(row, dict):
        raise DataError(f'is {_kind(row)}, not a JSON object as in {{"{AUDIO_KEY}": "a.wav", "{TEXT_KEY}": "hello"}}')
    return row


def text_of(row: dict[str, Any], key: str) -> str:
    """A text in a row. Raises `DataError`."""
    if key not in row:
        raise DataError(f'lacks {key}; it has {", ".join(map(repr, list(row)[:8])) or "nothing"}')
    value = row[key]
    if not isinstance(value, str):
        raise DataError(f'{key} is {_kind(value)}, not a text')
    if '\0' in value or any('\ud800' <= character <= '\udfff' for character in value):
        raise DataError(f'{key} is {value!r}, which has a character that no text has')
    return value


def seconds_of(row: dict[str, Any], key: str) -> float | None:
    """A number of seconds in a row, None where there is none. Raises `DataError`."""
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f'{key} is {value!r}, not a number of seconds')
    try:
        seconds = float(value)
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds) or seconds < 0:
        raise DataError(f'{key} is {seconds}, not a number of seconds')
    return seconds


def speaker_of(row: dict[str, Any]) -> str:
    """Who speaks, where that is said."""
    return next((str(row[key]) for key in SPEAKER_KEYS if row.get(key) is not None), '')


def _kind(value: object) -> str:
    names = {dict: 'an object', list: 'a list', str: 'a text', bool: 'true or false', type(None): 'null'}
    return names.get(type(value), f'the number {value!r}')
