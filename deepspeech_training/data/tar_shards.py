"""Tar files that hold utterances, as WebDataset has them: KEY.wav beside KEY.txt or KEY.json.

They are read in place. Where each entry begins, and its transcript, is found out by going through the whole file once,
and remembered until the file changes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from deepspeech_training import log, storage
from deepspeech_training.data.json_lines import TEXT_KEY, parse_object, speaker_of, text_of
from deepspeech_training.data.manifest import Problem, Sample
from deepspeech_training.data.sources import Source
from deepspeech_training.errors import DataError

AUDIO_SUFFIXES = ('.wav', '.flac', '.mp3', '.ogg', '.oga', '.opus')
TEXT_SUFFIXES = ('.txt', '.json')
LONGEST_TEXT = 1 << 20  # bytes
NUMBERS = re.compile(r'\{(\d+)\.\.(\d+)\}')
MOST_SHARDS = 1_000_000
INDEX_VERSION = 1


@dataclass
class _Entry:
    """What a tar file has under one key."""

    audio: list[tuple[str, int, int]] = field(default_factory=list)  # name, where it begins, size
    texts: dict[str, str | None] = field(default_factory=dict)  # by suffix; None for what is no UTF-8


def shards_of(path: str) -> list[str] | None:
    """The files that a pattern means, as in `train-{000..012}.tar` or `train-*.tar`; None where it is no pattern.

    Raises `DataError` for a pattern that no file fits.
    """
    if not re.search(r'[*?{\[]', path) or (not storage.is_remote(path) and os.path.exists(path)):
        return None
    if not path.endswith('.tar'):
        raise DataError(f'{path}: patterns name tar files only, as in train-{{000..012}}.tar or train-*.tar')
    paths = _numbered(path)
    if not re.search(r'[*?\[]', path):
        return paths
    found: list[str] = []
    for pattern in paths:
        try:
            found += storage.names_like(pattern)
        except OSError as error:
            raise DataError(f'{pattern}: cannot be read: {error.strerror}') from error
    if not found:
        raise DataError(f'{path}: no file fits this pattern')
    return found


def _numbered(pattern: str) -> list[str]:
    """Each number of each range, with as many digits as its bounds."""
    match = NUMBERS.search(pattern)
    if match is None:
        if '{' in pattern:
            raise DataError(f'{pattern}: braces name numbers, as in {{000..012}}')
        return [pattern]
    first, last = int(match[1]), int(match[2])
    if not first <= last < first + MOST_SHARDS:
        raise DataError(f'{pattern}: {match[0]} does not go from a number to a larger one')
    width = len(match[1]) if match[1].startswith('0') else 0
    names = [pattern[: match.start()] + str(n).zfill(width) + pattern[match.end() :] for n in range(first, last + 1)]
    return [each for name in names for each in _numbered(name)]


def read_tar_shards(
    path: str, shards: Sequence[str], *, labeled: bool = True, folder: str = ''
) -> tuple[list[Sample], list[Problem]]:
    """The utterances of `shards`, together the data set `path`, and what is wrong with the others.

    `folder`: where to remember what is where in them; '' for nowhere.

    Raises `DataError` for a shard that cannot be read, or is cut off.
    """
    samples: list[Sample] = []
    problems: list[Problem] = []
    number = 0
    for shard in shards:
        try:
            entries = _entries(shard, folder)
        except OSError as error:
            raise DataError(f'{shard}: cannot be read: {error.strerror}') from error
        for key, entry in entries.items():
            number += 1
            name = f'{shard}: {key}'
            try:
                samples.append(_sample(path, shard, number, key, entry, labeled))
            except DataError as error:
                problems.append(Problem(path, number, name, str(error), is_entry=True))
    return samples, problems


def _sample(path: str, shard: str, number: int, key: str, entry: _Entry, labeled: bool) -> Sample:
    """Raises `DataError` that says what is wrong."""
    if not entry.audio:
        raise DataError(f'has no audio beside {" and ".join(key + suffix for suffix in entry.texts)}')
    if len(entry.audio) > 1:
        raise DataError(f'has several audio files: {", ".join(name for name, _, _ in entry.audio)}')
    name, start, size = entry.audio[0]
    transcript, speaker = '', ''
    if entry.texts or labeled:
        transcript, speaker = _transcript(key, entry, labeled)
    return Sample(
        f'{shard}: {name}', size, transcript, path, number, source=Source(shard, start, size), speaker=speaker
    )


def _transcript(key: str, entry: _Entry, labeled: bool) -> tuple[str, str]:
    """The transcript and the speaker; '' where they are not known."""
    text, description = entry.texts.get('.txt'), entry.texts.get('.json')
    for suffix, content in entry.texts.items():
        if content is None:
            raise DataError(f'{key}{suffix} is no text in UTF-8 of at most {LONGEST_TEXT} bytes')
    try:
        row = parse_object(description) if description is not None else {}
        if text is None:
            text = text_of(row, TEXT_KEY) if TEXT_KEY in row or (row and labeled) else None
    except DataError as error:
        raise DataError(f'{key}.json {error}') from None
    if text is None and labeled:
        raise DataError(f'has no transcript: neither {key}.txt nor {key}.json is there')
    return (text or '').removesuffix('\n').removesuffix('\r'), speaker_of(row)


def _entries(shard: str, folder: str) -> dict[str, _Entry]:
    """What is in a shard, remembered or looked up. Raises `OSError` and `DataError`."""
    status = storage.status(shard)
    index = _index_path(shard, folder)
    if folder and (known := _recall(index, status)) is not None:
        return known
    with storage.open_to_read(shard) as file:
        entries = _look_up(shard, file)
    if folder:
        _remember(index, status, entries)
    return entries


def _look_up(shard: str, file: BinaryIO) -> dict[str, _Entry]:
    entries: dict[str, _Entry] = {}
    try:
        with tarfile.open(fileobj=file, mode='r:') as archive:
            for member in archive:
                key, suffix = os.path.splitext(member.name)
                suffix = suffix.lower()
                if not member.isreg() or member.issparse() or os.path.basename(key).startswith('.'):
                    continue
                if suffix in AUDIO_SUFFIXES:
                    entry = entries.setdefault(key, _Entry())
                    entry.audio.append((member.name, member.offset_data, member.size))
                elif suffix in TEXT_SUFFIXES:
                    entries.setdefault(key, _Entry()).texts[suffix] = _text(archive, member)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise DataError(f'{shard}: is no tar file, damaged or cut off: {error}') from error
    return entries


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str | None:
    file = archive.extractfile(member)
    if file is None or member.size > LONGEST_TEXT:
        return None
    try:
        return file.read().decode('utf-8-sig')
    except UnicodeDecodeError:
        return None


def _index_path(shard: str, folder: str) -> str:
    name = storage.absolute(shard)
    digest = hashlib.sha256(name.encode(errors='surrogateescape')).hexdigest()[:16]
    return os.path.join(folder, f'{os.path.basename(name)}-{digest}.index.json.gz')


def _recall(index: str, status: storage.Status) -> dict[str, _Entry] | None:
    try:
        with gzip.open(index, 'rb') as file:
            content: dict[str, Any] = json.load(file)
        if (content['version'], *content['status']) != (INDEX_VERSION, *status):
            return None
        return {
            key: _Entry([(name, start, size) for name, start, size in audio], texts)
            for key, (audio, texts) in content['entries'].items()
        }
    except FileNotFoundError:
        return None
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        log.debug(f'{index}: cannot be used, the tar file is gone through again: {error!r}')
        return None


def _remember(index: str, status: storage.Status, entries: dict[str, _Entry]) -> None:
    content = json.dumps(
        {
            'version': INDEX_VERSION,
            'status': status,
            'entries': {key: [entry.audio, entry.texts] for key, entry in entries.items()},
        },
        separators=(',', ':'),
    )
    try:
        os.makedirs(os.path.dirname(index), exist_ok=True)
        storage.write_whole(index, gzip.compress(content.encode(), compresslevel=1))
    except OSError as error:
        log.debug(f'{index}: cannot be written, the next run goes through the tar file again: {error}')
