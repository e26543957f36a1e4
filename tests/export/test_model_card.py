"""The model card and its YAML."""

from __future__ import annotations

from deepspeech_training.config import ExportConfig
from deepspeech_training.export.model_card import model_card, model_card_name


def front_matter(card: str) -> dict[str, str]:
    assert card.startswith('---\n')
    lines = card.removeprefix('---\n').split('\n---\n')[0].splitlines()
    return dict(line.split(': ', 1) for line in lines)


def test_fields_are_deepspeechs() -> None:
    export = ExportConfig(
        author_id='ann',
        model_name='digits',
        model_version='1.0.0',
        contact_info='https://example.org/ann',
        license='CC-BY-SA-4.0',
        language='de-Latn-AT',
        min_ds_version='0.9.0',
        max_ds_version='0.9.3',
        description='# Digits\n\nTrained on: digits.',
    )
    card = model_card(export, runtime='tensorflow')
    assert front_matter(card) == {
        'author': 'ann',
        'model_name': 'digits',
        'model_version': '1.0.0',
        'contact_info': '"https://example.org/ann"',
        'license': 'CC-BY-SA-4.0',
        'language': 'de-Latn-AT',
        'runtime': 'tensorflow',
        'min_ds_version': '0.9.0',
        'max_ds_version': '0.9.3',
        'acoustic_model_url': '<where the acoustic model can be downloaded>',
        'scorer_url': '<where the scorer can be downloaded, if there is one>',
    }
    assert card.endswith('---\n# Digits\n\nTrained on: digits.\n')
    assert model_card_name(export) == 'ann_digits_1.0.0.md'


def test_text_that_yaml_would_read_as_something_else_is_quoted() -> None:
    export = ExportConfig(author_id='no', model_name='1.0', model_version='1e3', contact_info='a: "b"\nc', license='ä#')
    fields = front_matter(model_card(export, runtime='tflite'))
    assert fields['author'] == '"no"'
    assert fields['model_name'] == '"1.0"'
    assert fields['model_version'] == '"1e3"'
    assert fields['contact_info'] == r'"a: \"b\"\nc"'
    assert fields['license'] == '"ä#"'
    assert fields['runtime'] == 'tflite'


def test_fields_that_nobody_gave_say_what_belongs_there() -> None:
    fields = front_matter(model_card(ExportConfig(), runtime='tensorflow'))
    assert fields['license'].startswith('<SPDX')
    assert fields['language'].startswith('<')
    assert all(fields.values())
