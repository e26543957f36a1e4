"""Writes what is usable of a data set."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass

from deepspeech_training.data.manifest import NAME_COLUMN, SIZE_COLUMN, TRANSCRIPT_COLUMN
from deepspeech_training.data.remembered import write_whole
from deepspeech_training.doctor.examination import DataSet, Examination
from deepspeech_training.doctor.kinds import ERROR, WARNING, Finding
from deepspeech_training.doctor.tables import rows_of
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
    elif len(targets) == len(inputs):
        paths = list(targets)
    else:
        raise FlagError(
            f'--fix={targets[0]}: there are {len(inputs)} data sets and {len(targets)} outputs; give --fix once '
            'for each, or name a folder with / at its end'
        )
    known = {os.path.realpath(path) for path in inputs}
    for path in paths:
        if os.path.realpath(path) in known:
            raise FlagError(f'--fix={path}: would replace an input; name another file')
        if paths.count(path) > 1:
            raise FlagError(f'--fix={path}: two data sets would go there; give --fix once for each')
    return paths


def write_fixed(examination: Examination, number: int, path: str, *, strict: bool) -> Fixed:
    """Writes the rows without errors of the set with this number; with `strict`, those without warnings only.

    All columns are kept. Names of audio files are made relative to the new file, unless they are absolute. Spaces are
    put right, and sizes. What is dropped is listed beside it, with the reasons.

    Raises `DataError` where no row is left, or the files cannot be written.
    """
    each = examination.sets[number]
    severities = (ERROR, WARNING) if strict else (ERROR,)
    reasons = [
        finding
        for finding in examination.findings
        if finding.set == number and finding.line and finding.severity in severities and finding.kind not in MENDED
    ]
    dropped = {finding.line for finding in reasons}
    content, kept, mended = _table(each, dropped, path)
    if not kept:
        raise DataError(f'{each.path}: has no row that can be used; {path} is not written')
    list_path = f'{path.removesuffix(".csv")}{DROPPED_SUFFIX}' if reasons else ''
    try:
        write_whole(path, content)
        if list_path:
            write_whole(list_path, _dropped_list(each.path, reasons))
    except OSError as error:
        raise DataError(f'--fix={path}: cannot be written: {error.strerror}') from error
    return Fixed(path, kept, len(dropped), mended, list_path)


def _table(each: DataSet, dropped: set[int], path: str) -> tuple[bytes, int, int]:
    """The new file, how many rows it has, and how many transcripts were changed."""
    rows = rows_of(each.path)
    _, header = next(rows)
    names = [name.strip() for name in header]
    name_column, transcript_column = names.index(NAME_COLUMN), names.index(TRANSCRIPT_COLUMN)
    sizes = dict(zip((sample.line for sample in each.samples), each.measured['size'].tolist(), strict=True))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator='\n')
    writer.writerow(names)
    kept = mended = 0
    for line, row in rows:
        if line in dropped or line not in sizes:
            continue
        transcript = tidy(row[transcript_column])
        mended += transcript != row[transcript_column]
        row[transcript_column] = transcript
        row[name_column] = moved(row[name_column], os.path.dirname(each.path), os.path.dirname(path))
        if SIZE_COLUMN in names:
            row[names.index(SIZE_COLUMN)] = str(sizes[line])
        writer.writerow(row)
        kept += 1
    return text.getvalue().encode(errors='surrogateescape'), kept, mended


def moved(name: str, old_folder: str, new_folder: str) -> str:
    """A file name relative to `old_folder`, relative to `new_folder`; an absolute one stays as it is."""
    if os.path.isabs(name) or os.path.realpath(old_folder) == os.path.realpath(new_folder):
        return name
    return os.path.relpath(os.path.join(os.path.realpath(old_folder), name), os.path.realpath(new_folder))


def _dropped_list(path: str, reasons: Sequence[Finding]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator='\n')
    writer.writerow(['csv', 'line', NAME_COLUMN, 'kind', 'reason'])
    writer.writerows([path, each.line, each.path, each.kind, each.message] for each in sorted(reasons, key=_by_line))
    return text.getvalue().encode(errors='surrogateescape')


def _by_line(finding: Finding) -> int:
    return finding.line
