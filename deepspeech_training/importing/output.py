"""What an import writes beside the audio, and what it tells."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deepspeech_training import storage
from deepspeech_training.errors import DataError

COLUMNS = ('wav_filename', 'wav_filesize', 'transcript')
SPEAKER_COLUMN = 'speaker'
REJECTED = 'rejected'
NOTE = '.import.json'
"""Says which CSV files are an importer's, that it may replace."""


@dataclass(frozen=True, slots=True)
class Row:
    """An utterance that can be used."""

    path: str
    size: int  # bytes
    transcript: str
    speaker: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Reject:
    """An utterance that is left out."""

    split: str
    source: str  # where its transcript stands
    audio: str
    reason: str
    transcript: str
    detail: str = ''  # what differs from one to the next of the same reason


def check_csv_files(folder: Path, splits: Mapping[str, str]) -> None:
    """Notes that SPLIT.csv for each of `splits` is an importer's. `splits`: where each of them is named.

    Raises `DataError` for a name that no file can have, and for a file that is there and is not an importer's.
    """
    for split, source in splits.items():
        if split == REJECTED or not re.fullmatch(r'\w[\w.-]*', split):
            raise DataError(f'{source}: the split {split!r} cannot be the name of a CSV file; use letters and digits')
    names = [csv_path(folder, name).name for name in (*splits, REJECTED)]
    ours = _read_note(folder)
    for name in names:
        if name not in ours and os.path.lexists(folder / name):
            raise DataError(
                f'{folder / name}: is there already, and no importer made it. Move it, or import into another folder'
            )
    _write(folder / NOTE, io.StringIO(json.dumps({'csv': sorted({*ours, *names})}) + '\n'))


def _read_note(folder: Path) -> set[str]:
    try:
        return set(json.loads((folder / NOTE).read_text(encoding='utf-8'))['csv'])
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def write_csvs(folder: Path, splits: Mapping[str, Sequence[Row]]) -> None:
    """Writes SPLIT.csv for each split; names of audio files are relative where they are in `folder`.

    Raises `DataError` where one cannot be written; the old file is there then.
    """
    with_speaker = any(row.speaker for rows in splits.values() for row in rows)
    for split, rows in splits.items():
        text = io.StringIO()
        writer = csv.writer(text, lineterminator='\n')
        writer.writerow((*COLUMNS, SPEAKER_COLUMN) if with_speaker else COLUMNS)
        for row in rows:
            values = (_relative(row.path, folder), row.size, row.transcript)
            writer.writerow((*values, row.speaker) if with_speaker else values)
        _write(csv_path(folder, split), text)


def write_rejects(folder: Path, rejects: Sequence[Reject]) -> None:
    """Writes the list of what is left out. Raises `DataError`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator='\n')
    writer.writerow(('split', 'source', 'audio', 'reason', 'transcript'))
    for reject in rejects:
        reason = f'{reject.reason}: {reject.detail}' if reject.detail else reject.reason
        writer.writerow((reject.split, reject.source, reject.audio, reason, reject.transcript))
    _write(csv_path(folder, REJECTED), text)


def csv_path(folder: Path, split: str) -> Path:
    """The CSV file of a split."""
    return folder / f'{split}.csv'


def _write(path: Path, text: io.StringIO) -> None:
    try:
        storage.write_whole(str(path), text.getvalue().encode(errors='surrogateescape'))
    except OSError as error:
        raise DataError(f'{path}: cannot be written: {error.strerror}') from error


def _relative(path: str, folder: Path) -> str:
    absolute, base = os.path.abspath(path), os.path.abspath(folder)
    return os.path.relpath(absolute, base) if absolute.startswith(os.path.join(base, '')) else absolute


def report(folder: Path, splits: Mapping[str, Sequence[Row]], rejects: Sequence[Reject]) -> str:
    """What was imported and what was not, for people."""
    lines = []
    for split, rows in splits.items():
        speakers = {row.speaker for row in rows if row.speaker}
        voices = f', {len(speakers)} speaker{"s" * (len(speakers) != 1)}' if speakers else ''
        hours = sum(row.seconds for row in rows) / 3600
        lines.append(f'{csv_path(folder, split)}: {len(rows)} utterances, {hours:.2f} hours{voices}')
    if rejects:
        lines.append(f'{csv_path(folder, REJECTED)}: {len(rejects)} utterances were left out:')
        counts = Counter(reject.reason for reject in rejects)
        lines += [f'  {count:6d}  {reason}' for reason, count in counts.most_common()]
    return '\n'.join(lines)
