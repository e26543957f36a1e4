"""Files with the results of a run: complete, or not there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from typing import IO

from deepspeech_training import storage
from deepspeech_training.errors import FlagError, UserError
from deepspeech_training.evaluation.html_report import write_html
from deepspeech_training.evaluation.results import Results
from deepspeech_training.evaluation.subject import Subject
from deepspeech_training.evaluation.tables import write_csv, write_json


def write_report(flag: str, kind: str, path: str, results: Results, subject: Subject) -> None:
    """Writes `path` as `kind` says, one of `config.REPORT_SUFFIXES`.

    Raises `UserError` that names `flag` where it cannot be written; a file that was there is not touched then.
    """
    writers: dict[str, Callable[[IO[str]], None]] = {
        '.json': partial(write_json, results=results, subject=subject),
        '.csv': partial(write_csv, results=results),
        '.html': partial(write_html, results=results, subject=subject, folder=os.path.dirname(path)),
    }
    write_file(flag, path, writers[kind])


def check_output(flag: str, path: str) -> None:
    """Raises `FlagError` where no file can be written at `path`; leaves nothing behind but its folder."""
    folder = os.path.dirname(path) or os.curdir
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        if os.path.isdir(path):
            raise FlagError(f'{flag}={path}: is a folder; give the name of a file')
    except OSError as error:
        raise FlagError(f'{flag}={path}: cannot be written: {error.strerror}') from None


def write_file(flag: str, path: str, write: Callable[[IO[str]], None]) -> None:
    """Has `write` write a text file in UTF-8, which gets its name when it is complete. Folders are made.

    Raises `UserError` that names `flag`.
    """
    try:
        os.makedirs(os.path.dirname(path) or os.curdir, exist_ok=True)
        with (
            storage.written_whole(path) as unfinished,
            # Names of recordings may have bytes that are no UTF-8.
            open(unfinished, 'x', encoding='utf-8', errors='surrogateescape', newline='') as file,
        ):
            write(file)
    except OSError as error:
        raise UserError(f'{flag}: cannot write {path}: {error.strerror}') from None
