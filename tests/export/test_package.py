"""The ZIP package."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from pathlib import Path

import pytest

from deepspeech_training.config import Config
from deepspeech_training.errors import ScorerError
from deepspeech_training.export.formats import export_model
from deepspeech_training.export.package import alphabet_file
from deepspeech_training.text.alphabet import Alphabet
from tests.decoding.test_scorer_check import small_scorer


def exported(config: Config, alphabet: Alphabet, **changes: str) -> list[str]:
    export = dataclasses.replace(config.export, zip=True, language='de', **changes)  # type: ignore[arg-type]
    return export_model(dataclasses.replace(config, export=export), alphabet)


def test_contents(small: Config, alphabet: Alphabet, tmp_path: Path) -> None:
    scorer = tmp_path / 'words.scorer'
    scorer.write_bytes(small_scorer(['ja', 'nein'], alphabet, known=['ja', 'nein']))
    model, package, card = map(Path, exported(small, alphabet, scorer=str(scorer), file_name='wahl'))
    assert [path.name for path in (model, package, card)] == ['wahl.tflite', 'wahl.zip', 'author_model_0.0.1.md']
    with zipfile.ZipFile(package) as file:
        assert file.testzip() is None
        contents = {name: file.read(name) for name in file.namelist()}
    assert contents.pop('wahl.tflite') == model.read_bytes()
    assert contents.pop('words.scorer') == scorer.read_bytes()
    assert contents.pop(card.name) == card.read_bytes()
    assert json.loads(contents.pop('info.json')) == {
        'name': 'de', 'model': 'wahl.tflite', 'scorer': 'words.scorer', 'alphabet': 'alphabet.txt', 'card': card.name
    }  # fmt: skip
    (tmp_path / 'alphabet.txt').write_bytes(contents.pop('alphabet.txt'))
    assert Alphabet.from_file(str(tmp_path / 'alphabet.txt')).labels == alphabet.labels
    assert not contents
    before = package.read_bytes()
    exported(small, alphabet, scorer=str(scorer), file_name='wahl')
    assert package.read_bytes() == before


def test_without_scorer(small: Config, alphabet: Alphabet) -> None:
    with zipfile.ZipFile(exported(small, alphabet)[1]) as file:
        assert sorted(file.namelist()) == ['alphabet.txt', 'author_model_0.0.1.md', 'info.json', 'output_graph.tflite']
        assert json.loads(file.read('info.json'))['scorer'] is None


def test_a_scorer_for_another_alphabet_leaves_the_earlier_export(
    small: Config, alphabet: Alphabet, tmp_path: Path
) -> None:
    exported(small, alphabet)
    folder = Path(small.export.export_dir)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    scorer = tmp_path / 'words.scorer'
    scorer.write_bytes(small_scorer(['да', 'нет'], Alphabet(' адент'), known=['да', 'нет']))
    with pytest.raises(ScorerError, match='another alphabet'):
        exported(small, alphabet, scorer=str(scorer))
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_label_that_begins_comments(tmp_path: Path) -> None:
    alphabet = Alphabet([' ', '#', 'क्ष'])
    (tmp_path / 'alphabet.txt').write_text(alphabet_file(alphabet), encoding='utf-8')
    assert Alphabet.from_file(str(tmp_path / 'alphabet.txt')).labels == alphabet.labels
