"""What can be wrong with an export before there is a model: to be run before training, without TensorFlow."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path

from deepspeech_training.config import ExportConfig
from deepspeech_training.decoding.scorer_check import check_scorer_package
from deepspeech_training.errors import ExportError, FlagError
from deepspeech_training.text.alphabet import Alphabet

LANGUAGE_TAG = re.compile(r'[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*')
"""The syntax all tags of BCP 47 (RFC 5646, section 2.1) have; whether the subtags are registered is not looked up."""

WHOLE_NUMBER = re.compile('[0-9]{1,255}')
"""A version that TensorFlow Serving takes as it is."""

LARGEST_VERSION = 2**63 - 1


def check_export(export: ExportConfig, alphabet: Alphabet) -> None:
    """Whether a model with `alphabet` can be exported. The directory is looked at with the other flags, before.

    Raises:
      FlagError: the language is none, a package is missing, or flags do not fit together; everything at once.
      ScorerError: the scorer cannot be read, or is for another alphabet.
    """
    problems = [*_bad_language(export.language), *_bad_combinations(export), *_bad_for_servers(export)]
    if problems:
        raise FlagError('\n'.join(problems))
    if export.scorer:
        check_scorer_package(export.scorer, alphabet)


def _bad_language(language: str) -> Iterator[str]:
    if language and not LANGUAGE_TAG.fullmatch(language):
        suggestion = language.replace('_', '-')
        hint = f'; did you mean {suggestion}?' if LANGUAGE_TAG.fullmatch(suggestion) else ''
        yield f'--export_language={language}: must be a BCP 47 language tag, such as en or de-Latn-AT{hint}'


def _bad_combinations(export: ExportConfig) -> Iterator[str]:
    tflite = '--export_tflite' if export.tflite else '--export_zip' if export.zip else ''
    if not export.quantize and not tflite:
        yield '--noexport_quantize: is about weights for TensorFlow Lite; give --export_tflite too'
    if tflite and not export.batch_size:
        yield (
            f'--export_batch_size=0: does not fit {tflite}, whose LSTM is unrolled over a fixed number of frames '
            '(--n_steps); leave out one of them'
        )


def _bad_for_servers(export: ExportConfig) -> Iterator[str]:
    version = export.model_version
    if export.savedmodel and WHOLE_NUMBER.fullmatch(version) and int(version) > LARGEST_VERSION:
        yield (
            f'--export_model_version={version}: TensorFlow Serving takes whole numbers up to {LARGEST_VERSION}; '
            'give a smaller one, or one with dots, such as 1.0.0, for which --export_savedmodel counts up'
        )
    if export.onnx and importlib.util.find_spec('onnx') is None:
        yield "--export_onnx: needs the package onnx, which is not installed: pip install '.[onnx]'"


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
