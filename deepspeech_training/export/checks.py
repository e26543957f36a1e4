"""What can be known to be wrong with an export before there is a model. No TensorFlow here: this runs before training."""

from __future__ import annotations

import os
import re
from pathlib import Path

from deepspeech_training.config import ExportConfig
from deepspeech_training.errors import ExportError, FlagError

LANGUAGE_TAG = re.compile(r'[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*')
"""The syntax all tags of BCP 47 (RFC 5646, section 2.1) have; whether the subtags are registered is not looked up."""


def check_export(export: ExportConfig) -> None:
    """Raises `FlagError` for values no export can have, `ExportError` for a directory that cannot take one.

    Nothing is created or changed.
    """
    for flag, value, least in (
        ('export_batch_size', export.batch_size, 0),
        ('n_steps', export.n_steps, 1),
        ('export_beam_width', export.beam_width, 1),
    ):
        if value < least:
            raise FlagError(f'--{flag} {value}: must be {least} or more')
    for flag, text in (
        ('export_file_name', export.file_name),
        ('export_author_id', export.author_id),
        ('export_model_name', export.model_name),
        ('export_model_version', export.model_version),
    ):
        if not text or text.startswith('.') or re.search(r'[/\\\x00-\x1f]', text):
            raise FlagError(f'--{flag} {text!r}: becomes part of a file name; give letters, digits, "-", "_" and "."')
    if export.language and not LANGUAGE_TAG.fullmatch(export.language):
        suggestion = export.language.replace('_', '-')
        hint = f'; did you mean {suggestion}?' if LANGUAGE_TAG.fullmatch(suggestion) else ''
        raise FlagError(
            f'--export_language {export.language!r}: not a BCP 47 language tag like en-US or de-Latn-AT{hint}'
        )
    check_directory(export.export_dir)


def check_directory(export_dir: str) -> None:
    """Raises `ExportError` unless `export_dir` is, or can be made, a directory that takes new files."""
    folder = Path(export_dir).absolute()
    while not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir():
        raise ExportError(f'--export_dir {export_dir}: {folder} is not a directory; name another one')
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ExportError(
            f'--export_dir {export_dir}: {folder} is not writable for this user; '
            'change its permissions or name another directory'
        )
