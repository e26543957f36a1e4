"""The model card: a Markdown file beside the model that says whose it is, for what, and under which licence."""

from __future__ import annotations

import json
import re

from deepspeech_training.config import ExportConfig

CLIENT_VERSION = '0.9.3'
"""The `deepspeech` client that exports are tested with; stands in the card where the flags name no version."""

PLAIN_SCALAR = re.compile(r'[A-Za-z<](?:[A-Za-z0-9 ._+@/<>(),-]*[A-Za-z0-9.>)])?|\d+(\.\d+){2,}')
"""Text that YAML reads as itself; anything else is quoted."""

YAML_WORDS = frozenset(('y', 'n', 'yes', 'no', 'on', 'off', 'true', 'false', 'null'))
"""Words that YAML reads as something other than text; `no` is also a language."""


def model_card_name(export: ExportConfig) -> str:
    """File name of the model card, as DeepSpeech named it."""
    return f'{export.author_id}_{export.model_name}_{export.model_version}.md'


def model_card(export: ExportConfig, *, runtime: str) -> str:
    """The text of the card: DeepSpeech's YAML fields between `---` lines, then the description in Markdown.

    `runtime` is 'tensorflow' or 'tflite'. Fields that no flag gives say in angle brackets what belongs there.
    """
    fields = {
        'author': export.author_id,
        'model_name': export.model_name,
        'model_version': export.model_version,
        'contact_info': export.contact_info or '<how to reach the author>',
        'license': export.license or '<SPDX identifier of the licence>',
        'language': export.language or '<BCP 47 language tag>',
        'runtime': runtime,
        'min_ds_version': export.min_ds_version or CLIENT_VERSION,
        'max_ds_version': export.max_ds_version or CLIENT_VERSION,
        'acoustic_model_url': '<where the acoustic model can be downloaded>',
        'scorer_url': '<where the scorer can be downloaded, if there is one>',
    }
    lines = ['---', *(f'{name}: {_scalar(value)}' for name, value in fields.items()), '---']
    lines.append(export.description or '<description: data, training settings, results>')
    return '\n'.join(lines) + '\n'


def _scalar(text: str) -> str:
    """`text` as a YAML scalar on one line; JSON's strings are YAML's."""
    plain = PLAIN_SCALAR.fullmatch(text) and text.lower() not in YAML_WORDS
    return text if plain else json.dumps(text, ensure_ascii=False)
