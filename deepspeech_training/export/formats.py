"""Export of the checkpoint's model in every format that the flags ask for, as one set of files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from deepspeech_training.config import Config, ExportConfig
from deepspeech_training.export.checks import check_directory, check_export
from deepspeech_training.export.files import Part, part_of_bytes, write_export
from deepspeech_training.export.frozen import frozen_parts
from deepspeech_training.export.model_card import model_card, model_card_name
from deepspeech_training.export.savedmodel import savedmodel_parts
from deepspeech_training.export.tflite import tflite_parts
from deepspeech_training.text.alphabet import Alphabet

Format = Callable[[Config, Alphabet], dict[str, Part]]
"""Restores and converts the model. Answers with the files, by their names below the export directory.

It raises `UserError`s, `CheckpointError` for a checkpoint that is missing or does not fit, before anything is written.
"""


def export_model(config: Config, alphabet: Alphabet) -> list[str]:
    """Writes the checkpoint's model and its model card into `config.export.export_dir`.

    Returns the paths of the files written: all of them, or none are.

    Raises:
      FlagError: the language is no language tag, or flags do not fit together.
      ScorerError: the scorer is for another alphabet.
      CheckpointError: there is no checkpoint, or it does not fit the flags.
      ExportError: the directory or a file cannot be written. Whatever was there before is untouched.
    """
    export = config.export
    check_export(export, alphabet)
    check_directory(export.export_dir)
    formats = chosen_formats(export)
    parts: dict[str, Part] = {}
    for convert in formats.values():
        parts |= convert(config, alphabet)
    card = model_card(export, runtime=', '.join(formats))
    parts[model_card_name(export)] = part_of_bytes(card.encode(), foreign='keep')
    names = write_export(export.export_dir, parts, remove_earlier=export.remove_export)
    return [str(Path(export.export_dir) / name) for name in names]


def chosen_formats(export: ExportConfig) -> dict[str, Format]:
    """The formats that the flags ask for, by the runtime they are for; the frozen graph where they ask for none."""
    formats: dict[str, Format] = {}
    if export.tflite or export.zip:
        formats['tflite'] = tflite_parts
    if export.savedmodel:
        formats['savedmodel'] = savedmodel_parts
    if export.onnx:
        from deepspeech_training.export.onnx_models import onnx_parts  # needs a package that not everybody has

        formats['onnx'] = onnx_parts
    return formats or {'tensorflow': frozen_parts}
