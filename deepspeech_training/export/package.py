"""The ZIP package: everything that an application needs to recognise speech with a model, in one file."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from deepspeech_training.config import ExportConfig
from deepspeech_training.export.files import Part, model_file
from deepspeech_training.export.model_card import model_card, model_card_name
from deepspeech_training.text.alphabet import Alphabet

ALPHABET = 'alphabet.txt'
INFO = 'info.json'

TIMESTAMP = (1980, 1, 1, 0, 0, 0)
"""Of the files in the package, so that the same model makes the same bytes."""


def zip_part(export: ExportConfig, alphabet: Alphabet, model: bytes) -> Part:
    """The package: `model`, a TensorFlow Lite file; alphabet, scorer if there is one, model card, and `info.json`.

    That is a JSON object: `name`, the language, as in DeepSpeech's packages for Android, and the names of the
    other files. Models of bytes have no file for the alphabet.
    """
    scorer = Path(export.scorer).name if export.scorer else None
    card = model_card_name(export)
    info = {
        'name': export.language,
        'model': model_file(export, '.tflite'),
        'scorer': scorer,
        'alphabet': None if alphabet.of_bytes else ALPHABET,
        'card': card,
    }
    contents = {
        model_file(export, '.tflite'): model,
        **({} if alphabet.of_bytes else {ALPHABET: alphabet_file(alphabet).encode()}),
        card: model_card(export, runtime='tflite').encode(),
        INFO: (json.dumps(info, indent=2, ensure_ascii=False) + '\n').encode(),
    }

    def write(path: Path) -> None:
        with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as package:
            for name, content in contents.items():
                package.writestr(_entry(name), content)
            if scorer is not None:
                with open(export.scorer, 'rb') as source, package.open(_entry(scorer), 'w', force_zip64=True) as target:
                    while block := source.read(1 << 20):
                        target.write(block)

    return Part(write, foreign='replace')


def alphabet_file(alphabet: Alphabet) -> str:
    """The content of a file that `Alphabet.from_file` reads as `alphabet`."""
    return ''.join(('\\#' if label == '#' else label) + '\n' for label in alphabet.labels)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, TIMESTAMP)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry
