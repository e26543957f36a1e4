"""What an exported model says about itself, made a value of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deepspeech_training.config import FEATURE_BACKENDS, FeatureConfig
from deepspeech_training.errors import DataError, ModelError
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.alphabets import alphabet_of_bytes, alphabet_of_names, deserialize_alphabet

VERSION = 6
"""The version of the metadata that DeepSpeech 0.9, its successors and this trainer write."""

NAMES = (
    *('metadata_version', 'metadata_sample_rate', 'metadata_feature_win_len', 'metadata_feature_win_step'),
    *('metadata_beam_width', 'metadata_alphabet'),
)
OPTIONAL_NAMES = ('metadata_language', 'metadata_feature_backend')  # DeepSpeech wrote none of the latter


@dataclass(frozen=True)
class ModelInfo:
    """What has to be known to use a model: the audio it wants, the characters it writes, how to decode these."""

    features: FeatureConfig
    alphabet: Alphabet
    beam_width: int
    language: str = ''  # BCP 47


def parse_metadata(path: str, values: Mapping[str, Any]) -> ModelInfo:
    """The `metadata_*` values of the model `path`, by name: integers, and bytes or text. The alphabet may also be a
    list of the labels, as names or as what they write.

    Raises `ModelError` when one of `NAMES` is missing, or has a value that this version does not know.
    """
    missing = [name for name in NAMES if name not in values]
    if missing:
        raise ModelError(
            f"{path}: is no speech model of DeepSpeech's kind, or of a version before 0.7: "
            f'it lacks {", ".join(missing)}'
        )
    version = _integer(path, 'metadata_version', values)
    if version != VERSION:
        raise ModelError(f'{path}: metadata_version is {version}; only {VERSION}, that of DeepSpeech 0.9, is known')
    backend = _text(values.get('metadata_feature_backend', b'')) or 'tensorflow'
    if backend not in FEATURE_BACKENDS:
        raise ModelError(f'{path}: metadata_feature_backend is {backend!r}, not one of {", ".join(FEATURE_BACKENDS)}')
    rate, window, step, beam_width = (_positive(path, name, values) for name in NAMES[1:5])
    try:
        alphabet = _alphabet(path, values['metadata_alphabet'])
    except DataError as error:
        raise ModelError(f'{path}: metadata_alphabet: {error}') from None
    features = FeatureConfig(sample_rate=rate, window_ms=window, step_ms=step, backend=backend)
    return ModelInfo(features, alphabet, beam_width, _text(values.get('metadata_language', b'')))


def check_width(path: str, width: int | None, alphabet: Alphabet) -> None:
    """Raises `ModelError` unless `width`, that of the output if it is known, is that of the characters and a blank."""
    if width is not None and width != alphabet.size + 1:
        raise ModelError(
            f'{path}: has {width} outputs, which an alphabet of {width - 1} {alphabet.unit} needs; '
            f'its own has {alphabet.size}'
        )


def _alphabet(path: str, value: Any) -> Alphabet:
    if not isinstance(value, list):
        return deserialize_alphabet(_bytes(value), path)
    if value and isinstance(value[0], bytes):
        return alphabet_of_bytes(value, path)
    return alphabet_of_names(value, path)


def _positive(path: str, name: str, values: Mapping[str, Any]) -> int:
    value = _integer(path, name, values)
    if value < 1:
        raise ModelError(f'{path}: {name} is {value}, which cannot be')
    return value


def _integer(path: str, name: str, values: Mapping[str, Any]) -> int:
    try:
        return int(values[name])
    except (TypeError, ValueError):
        raise ModelError(f'{path}: {name} is {values[name]!r}, not a number') from None


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _text(value: Any) -> str:
    return _bytes(value).decode('utf-8', 'replace')
