"""Transcripts as people write them, made into what a model can learn, or refused."""

from __future__ import annotations

import os
import re
import sys
import traceback
import types
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from deepspeech_training.errors import DataError
from deepspeech_training.text.alphabet import Alphabet, describe_character, normalize

ValidateLabel = Callable[[str], str | None]

APOSTROPHES = str.maketrans(dict.fromkeys('’ʼ‘`´', "'"))
SPOKEN_SIGNS = '&*%#@§/\\(<[{}]>)'
"""Punctuation that is read out, or that stands around what is not said."""


@dataclass(frozen=True)
class LabelSettings:
    """How transcripts are cleaned."""

    validate: ValidateLabel | None = None  # of the user's; None for `clean_label`
    alphabet: Alphabet | None = None  # that must spell them
    strip_diacritics: bool = False
    normalization: str = 'NFC'
    space_after_every_character: bool = False


def make_label(transcript: str, settings: LabelSettings) -> tuple[str, str]:
    """The cleaned transcript and '', or '' and why the transcript cannot be used.

    Raises `DataError` where the user's own function fails.
    """
    text = transcript.strip()
    if settings.strip_diacritics:
        text = unicodedata.normalize('NFKD', text).encode('ascii', 'ignore').decode()
    if settings.validate is None:
        text, reason = clean_label(text)
    else:
        text, reason = settings.validate(text) or '', 'refused by --validate_label_locale'
    if not text.strip():
        return '', reason or 'the transcript is empty'
    text = normalize(text, settings.normalization)
    if settings.space_after_every_character:
        text = ' '.join(text.replace(' ', ''))
    if settings.alphabet and (unknown := settings.alphabet.unknown(settings.alphabet.normalize(text))):
        return '', f'{describe_character(unknown[0])} is not in --filter_alphabet'
    return text, ''


def clean_label(text: str) -> tuple[str, str]:
    """DeepSpeech's rules, for the punctuation of all scripts: the cleaned text and '', or '' and what is wrong.

    Digits and signs that are read out in some way or other, and brackets, make a transcript useless, for it does not
    say what was said. Hyphens and underscores become spaces, other punctuation except the apostrophe goes, letters
    become lower case.
    """
    text = text.translate(APOSTROPHES)
    kept = []
    for character in text:
        category = unicodedata.category(character)
        if category.startswith('N'):
            return '', 'the transcript has digits'
        if category.startswith('S') or character in SPOKEN_SIGNS:
            return '', 'the transcript has signs or brackets'
        if category in ('Pd', 'Pc', 'Cc') or category.startswith('Z'):
            kept.append(' ')
        elif character in "'\u200c\u200d" or category[0] not in 'PC':
            kept.append(character)
    return ' '.join(''.join(kept).lower().split()), ''


def load_validate_label(path: str) -> ValidateLabel:
    """The function `validate_label` of a Python file, as DeepSpeech's importers take it.

    It gets a transcript and returns the cleaned one, or None for one that is to be left out. Raises `DataError` for a
    file that is missing, cannot be run, or has no such function; the function itself does where the user's fails.
    """
    flag = f'--validate_label_locale={path}'
    try:
        with open(path, 'rb') as file:
            content = file.read()
        module = types.ModuleType('validate_label_locale')
        module.__file__ = path
        sys.modules[module.__name__] = module
        with _beside(path):
            exec(compile(content, path, 'exec'), module.__dict__)
    except OSError as error:
        raise DataError(f'{flag}: cannot be read: {error.strerror}') from error
    except SyntaxError as error:
        raise DataError(f'{flag}: line {error.lineno or 1}: is no Python: {error.msg}') from error
    except (Exception, SystemExit) as error:
        raise DataError(f'{flag}: {_where(error, path)}{type(error).__name__}: {error}') from error
    function = getattr(module, 'validate_label', None)
    if not callable(function):
        raise DataError(f'{flag}: has no function validate_label(label), which returns the cleaned transcript or None')

    def validate(transcript: str) -> str | None:
        try:
            label = function(transcript)
        except Exception as error:
            what = f'{_where(error, path)}{type(error).__name__}: {error}'
            raise DataError(f'{flag}: {what}, for the transcript {transcript!r}') from error
        if label is not None and not isinstance(label, str):
            raise DataError(f'{flag}: returned {label!r} for {transcript!r}; it must be a string or None')
        return re.sub(r'\s+', ' ', label).strip() if label else None

    return validate


@contextmanager
def _beside(path: str) -> Iterator[None]:
    """Lets a file import its neighbours, as with DeepSpeech."""
    folder = os.path.dirname(os.path.abspath(path))
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _where(error: BaseException, path: str) -> str:
    """The last line of the file that the error passed, as in `line 3: `."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f'line {lines[-1]}: ' if lines else ''
