"""What can be wrong with an export before there is a model: to be run before training, without TensorFlow."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

from deepspeech_training.config import ExportConfig
from deepspeech_training.errors import ExportError, FlagError

LANGUAGE_TAG = re.compile(r'[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*')
"""The syntax all tags of BCP 47 (RFC 5646, section 2.1) have; whether the subtags are registered is not looked up."""

WHOLE_NUMBER = re.compile('[0-9]+')
"""A version that TensorFlow Serving takes as it is."""

LARGEST_VERSION = 2**63 - 1


def check_export(export: ExportConfig) -> None:
    """Raises `FlagError` for a language that is none, a version that cannot be a folder's, a package that is missing.

    The other values are checked with the flags, in `validation`, and so is the directory.
    """
    if export.language and not LANGUAGE_TAG.fullmatch(export.language):
        suggestion = export.language.replace('_', '-')
        hint = f'; did you mean {suggestion}?' if LANGUAGE_TAG.fullmatch(suggestion) else ''
        raise FlagError(
            f'--export_language={export.language}: must be a BCP 47 language tag, such as en or de-Latn-AT{hint}'
        )
    version = export.model_version
    if export.savedmodel and WHOLE_NUMBER.fullmatch(version) and int(version) > LARGEST_VERSION:
        raise FlagError(
            f'--export_model_version={version}: TensorFlow Serving takes whole numbers up to {LARGEST_VERSION}; '
            'give a smaller one, or one with dots, such as 1.0.0, for which --export_savedmodel counts up'
        )
    if export.onnx and importlib.util.find_spec('onnx') is None:
        raise FlagError("--export_onnx: needs the package onnx, which is not installed: pip install '.[onnx]'")


def check_directory(export_dir: str) -> None:
    """Raises `ExportError` unless `export_dir` is, or can be made, a directory that takes new files.

    Creates and changes nothing. For those who export without the program, which looks at all its folders at the start.
    """
    folder = Path(export_dir).absolute()
    while not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir():
        raise ExportError(f'--export_dir={export_dir}: {folder} is not a directory; name another one')
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ExportError(
            f'--export_dir={export_dir}: {folder} is not writable for this user; '
            'change its permissions or name another directory'
        )
