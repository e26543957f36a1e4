from __future__ import annotations

from typing import Any

import pytest

from deepspeech_training.errors import ModelError
from deepspeech_training.runtimes.metadata import check_width, parse_metadata
from deepspeech_training.text.alphabet import Alphabet

ALPHABET = Alphabet(' аб')
VALUES = {
    'metadata_version': 6,
    'metadata_sample_rate': 8000,
    'metadata_feature_win_len': 25,
    'metadata_feature_win_step': 10,
    'metadata_beam_width': 300,
    'metadata_alphabet': ALPHABET.serialize(),
    'metadata_language': b'ru-RU',
    'metadata_feature_backend': b'python_speech_features',
}


def test_everything_that_is_said() -> None:
    info = parse_metadata('model.pb', VALUES)
    features = info.features
    assert (features.sample_rate, features.window_ms, features.step_ms) == (8000, 25, 10)
    assert features.backend == 'python_speech_features'
    assert (info.alphabet.labels, info.beam_width, info.language) == (ALPHABET.labels, 300, 'ru-RU')


def test_what_deepspeech_leaves_out() -> None:
    own = ('metadata_language', 'metadata_feature_backend')
    info = parse_metadata('model.pb', {name: value for name, value in VALUES.items() if name not in own})
    assert (info.features.backend, info.language) == ('tensorflow', '')


@pytest.mark.parametrize(
    ('name', 'value', 'reason'),
    [
        ('metadata_version', 5, 'metadata_version is 5'),
        ('metadata_version', 7, 'metadata_version is 7'),
        ('metadata_version', b'?', 'not a number'),
        ('metadata_sample_rate', 0, 'metadata_sample_rate is 0'),
        ('metadata_beam_width', -1, 'metadata_beam_width is -1'),
        ('metadata_feature_backend', b'librosa', "'librosa', not one of tensorflow"),
        ('metadata_alphabet', b'\x05', 'metadata_alphabet: .* cut off'),
        ('metadata_alphabet', None, 'lacks metadata_alphabet'),
    ],
)
def test_what_is_unknown_is_named(name: str, value: Any, reason: str) -> None:
    values = {key: v for key, v in {**VALUES, name: value}.items() if v is not None}
    with pytest.raises(ModelError, match=f'model.pb: .*{reason}'):
        parse_metadata('model.pb', values)


def test_outputs_are_the_characters_and_the_blank() -> None:
    check_width('model.pb', 4, ALPHABET)
    check_width('model.pb', None, ALPHABET)
    with pytest.raises(ModelError, match='has 30 outputs, which an alphabet of 29 characters needs; its own has 3'):
        check_width('model.pb', 30, ALPHABET)
