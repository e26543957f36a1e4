"""Writes what is usable of a data set."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from deepspeech_training import storage
from deepspeech_training.data.formats import LIST_SUFFIXES, write_data_set
from deepspeech_training.data.manifest import NAME_COLUMN, SIZE_COLUMN, TRANSCRIPT_COLUMN, Sample
from deepspeech_training.doctor.examination import Examination
from deepspeech_training.doctor.kinds import ERROR, WARNING, Finding
from deepspeech_training.doctor.texts import tidy
from deepspeech_training.errors import DataError, FlagError

DROPPED_SUFFIX = '.dropped.csv'
MENDED = ('spaces',)
"""Kinds that are put right, so that their rows need not be dropped."""


@dataclass(frozen=True)
class Fixed:
    """What was written of a data set."""

    path: str
    kept: int
    dropped: int
    mended: int  # of those kept, transcripts that were changed
    list_path: str  # of what was dropped; '' where nothing was


def fixed_paths(targets: Sequence[str], inputs: Sequence[str]) -> list[str]:
    """The file for each input: `targets` are as many files, or one folder (there already, or with / at its end).

    Raises `FlagError` where they do not fit, would be written twice, or would replace an input.
    """
    if not targets:
        return []
    if len(targets) == 1 and (targets[0].endswith('/') or os.path.isdir(targets[0])):
        paths = [os.path.join(targets[0], os.path.basename(path)) for path in inputs]
        if pattern := next((path for path in inputs if re.search(r'[*?{]', path)), ''):
            raise FlagError(f'--fix={targets[0]}: {pattern} means several files; name one with --fix')
    elif len(targets) == len(inputs):
        paths = list(targets)
    else:
        raise FlagError(
            f'--fix={targets[0]}: there are {len(inputs)} data sets and {len(targets)} outputs; give --fix once '
            'for each, or name a folder with / at its end'
        )
    known = {os.path.realpath(path) for path in inputs}
    for path in paths:
        if not path.lower().endswith(LIST_SUFFIXES):
            raise FlagError(f'--fix={path}: its suffix names no format; those are {", ".join(LIST_SUFFIXES)}')
        if known & {os.path.realpath(path), os.path.realpath(list_path_of(path))}:
            raise FlagError(f'--fix={path}: would replace an input; name another file')
        if paths.count(path) > 1:
            raise FlagError(f'--fix={path}: two data sets would go there; give --fix once for each')
    return paths


def write_fixed(examination: Examination, number: int, path: str, *, strict: bool) -> Fixed:
    """Writes the rows without errors of the set with this number; with `strict`, those without warnings only.

    From one CSV file to another, all columns are kept, and relative names of audio files stay so. Spaces are put right,
    and sizes. What is dropped is listed beside it, with the reasons.

    Raises `DataError` where no row is left, or the files cannot be written.
    """
    each = examination.sets[number]
    severities = (ERROR, WARNING) if strict else (ERROR,)
    reasons = [
        finding
        for finding in examination.findings
        if finding.set == number
        and finding.problem.line
        and finding.severity in severities
        and finding.kind not in MENDED
    ]
    dropped = {finding.problem.line for finding in reasons}
    kept = {
        sample.line: replace(sample, transcript=tidy(sample.transcript), size=size)
        for sample, size in zip(each.samples, each.measured['size'].tolist(), strict=True)
        if sample.line not in dropped
    }
    if not kept:
        raise DataError(f'{each.path}: has no row that can be used; {path} is not written')
    if all(map(_is_local_csv, (each.path, path))) and (table := _table(each.path, kept, path)):
        _write(path, table)
    else:
        write_data_set(path, list(kept.values()))
    list_path = list_path_of(path)
    if reasons:
        _write(list_path, _dropped_list(reasons))
    else:
        with contextlib.suppress(OSError):  # that of an earlier run
            os.unlink(list_path)
    mended = sum(tidy(sample.transcript) != sample.transcript for sample in each.samples if sample.line in kept)
    return Fixed(path, len(kept), len(dropped), mended, list_path if reasons else '')


def list_path_of(path: str) -> str:
    """Where is told what was not written into `path`."""
    return f'{os.path.splitext(path)[0]}{DROPPED_SUFFIX}'


def _is_local_csv(path: str) -> bool:
    return path.lower().endswith('.csv') and not storage.is_remote(path)


def _table(source: str, kept: Mapping[int, Sample], path: str) -> str:
    """The lines `kept` of a CSV file with all its columns, as they shall be in `path`; '' where it is none."""
    rows = _rows_of(source)
    _, header = next(rows)
    names = [name.strip() for name in header]
    if NAME_COLUMN not in names:
        return ''
    text = io.StringIO()
    writer = csv.writer(text, lineterminator='\n')
    writer.writerow(names)
    for line, row in rows:
        if line not in kept:
            continue
        sample = kept[line]
        row[names.index(NAME_COLUMN)] = moved(
            row[names.index(NAME_COLUMN)], os.path.dirname(source), os.path.dirname(path)
        )
        row[names.index(TRANSCRIPT_COLUMN)] = sample.transcript
        if SIZE_COLUMN in names:
            row[names.index(SIZE_COLUMN)] = str(sample.size)
        writer.writerow(row)
    return text.getvalue()


def _rows_of(path: str) -> Iterator[tuple[int, list[str]]]:
    """The header and the rows of a CSV file, each with the line it begins on."""
    with open(path, encoding='utf-8-sig', newline='') as file:
        reader = csv.reader(file)
        last_line = 0
        for row in reader:
            if row:
                yield last_line + 1, row
            last_line = reader.line_num


def moved(name: str, old_folder: str, new_folder: str) -> str:
    """A file name relative to `old_folder`, relative to `new_folder`; an absolute one stays as it is."""
    old, new = os.path.realpath(old_folder), os.path.realpath(new_folder)
    if old == new or os.path.isabs(name) or storage.is_remote(name):
        return name
    return os.path.relpath(os.path.join(old, name), new)


def _dropped_list(reasons: Sequence[Finding]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator='\n')
    writer.writerow(['csv', 'line', NAME_COLUMN, 'kind', 'reason'])
    for each in sorted(reasons, key=lambda finding: finding.problem.line):
        writer.writerow([each.problem.csv, each.problem.line, each.problem.path, each.kind, each.problem.message])
    return text.getvalue()


def _write(path: str, text: str) -> None:
    try:
        storage.write_whole(path, text.encode(errors='surrogateescape'))
    except OSError as error:
        raise DataError(f'--fix={path}: cannot be written: {error.strerror}') from error
