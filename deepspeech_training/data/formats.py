"""Data sets in any format: what a file is, is seen from its content."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from deepspeech_training import storage
from deepspeech_training.data.json_lines import read_json_lines
from deepspeech_training.data.manifest import Problem, Sample, read_csv
from deepspeech_training.data.sample_database import MAGIC, read_sample_database
from deepspeech_training.data.tar_shards import read_tar_shards, shards_of
from deepspeech_training.data.writing import (
    ExtractedAudio,
    Written,
    write_csv,
    write_json_lines,
    write_sample_database,
    write_tar,
)
from deepspeech_training.errors import DataError

HEAD = 512  # bytes that tell
TAR_MAGIC, TAR_MAGIC_AT = b'ustar', 257
GZIP_MAGIC = b'\x1f\x8b'
JSON_SUFFIXES = ('.jsonl', '.ndjson', '.json', '.manifest')
LIST_SUFFIXES = ('.csv', '.sdb', '.tar', *JSON_SUFFIXES)


def read_data_set(path: str, *, labeled: bool = True, folder: str = '') -> tuple[list[Sample], list[Problem]]:
    """The samples of a data set that can be read, in its order, and what is wrong with the others.

    `path`: a CSV file, JSON lines, a sample database or a tar file, here or anywhere that fsspec reaches, or a pattern
    that names several tar files. Without `labeled`, transcripts may be missing. Audio is not looked at. `folder`: where
    to remember what is where in tar files; '' for nowhere.

    Raises `DataError` for a file that cannot be read, cannot be used at all, or has no samples.
    """
    shards = shards_of(path)
    if shards is not None:
        found = read_tar_shards(path, shards, labeled=labeled, folder=folder)
    else:
        found = _read_file(path, labeled, folder)
    if not any(found):
        raise DataError(f'{path}: has no utterances')
    return found


def _read_file(path: str, labeled: bool, folder: str) -> tuple[list[Sample], list[Problem]]:
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise DataError(f'{path}: is a pipe or a device, and data sets are read more than once: write it to a file')
    try:
        head = storage.read(path, 0, HEAD)
    except OSError as error:
        raise DataError(f'{path}: cannot be read: {error.strerror}') from error
    if head.startswith(MAGIC):
        return read_sample_database(path, labeled=labeled)
    if head.startswith(GZIP_MAGIC):
        raise DataError(f'{path}: is compressed by gzip, and samples are read from any place in it: gunzip it first')
    if head[TAR_MAGIC_AT:].startswith(TAR_MAGIC) or path.endswith('.tar'):
        return read_tar_shards(path, [path], labeled=labeled, folder=folder)
    if head.lstrip(b'\xef\xbb\xbf \t\r\n').startswith(b'{') or path.lower().endswith(JSON_SUFFIXES):
        return read_json_lines(path, labeled=labeled)
    return read_csv(path, labeled=labeled)


def write_data_set(path: str, samples: Sequence[Sample], advance: Callable[[], None] = lambda: None) -> None:
    """Writes samples as the data set `path`, a CSV file, JSON lines, a sample database or a tar file by its suffix.

    CSV files and JSON lines name audio files where they are; audio that is no file of its own is written into a new
    folder beside them, as JSON lines can say it in other words. The others contain the audio: tar files as it is, and
    sample databases as WAV files with 16 bits. `path` appears as a whole, or stays as it was; `advance` is called after
    each sample.

    Raises `DataError`: another suffix, no samples, audio that cannot be read, a place that cannot be written.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in LIST_SUFFIXES:
        raise DataError(f'{path}: its suffix names no format of data sets; those are {", ".join(LIST_SUFFIXES)}')
    if not samples:
        raise DataError(f'{path}: there are no samples to write')
    write = {'.csv': write_csv, '.sdb': write_sample_database, '.tar': write_tar}.get(suffix, write_json_lines)
    try:
        with ExtractedAudio(f'{path[: -len(suffix)]}-audio') as extracted, storage.written_whole(path) as unfinished:
            write(unfinished, Written(samples, storage.folder_of(path), extracted, advance))
            extracted.keep()
    except OSError as error:
        raise DataError(f'{error.filename or path}: cannot be written: {error.strerror}') from error
