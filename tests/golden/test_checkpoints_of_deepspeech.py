"""Checkpoints of DeepSpeech 0.9.3 test and transcribe as in DeepSpeech 0.9.3."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from rapidfuzz.distance import Levenshtein

from deepspeech_training.config import (
    CheckpointConfig,
    Config,
    DataConfig,
    DecodingConfig,
    ModelConfig,
    ReportConfig,
)
from deepspeech_training.data.checks import check_data
from deepspeech_training.infer import one_shot_infer
from deepspeech_training.text.alphabet import Alphabet
from tests.helpers import transcriptions

ALPHABET = str(Path(__file__).parents[2] / 'data' / 'alphabet.txt')
SENTENCE = 'she had your dark suit in greasy wash water all year'


@pytest.mark.parametrize(
    ('file', 'expected', 'most_errors'),
    [
        ('LDC93S1_pcms16le_1_16000.wav', SENTENCE, 0),
        ('LDC93S1_pcms16le_2_44100.wav', SENTENCE, 0),
        # What the client of DeepSpeech 0.9.3 itself makes of this file: the model, trained on one utterance, has
        # never heard speech without anything above 4 kHz. Resamplers differ in the last bit, hence the tolerance.
        ('LDC93S1_pcms16le_1_8000.wav', 'she hadeyorrasrrerarr rarer', 3),
    ],
)
def test_its_sentence_at_every_rate(deepspeech_data: Path, file: str, expected: str, most_errors: int) -> None:
    tf.compat.v1.disable_v2_behavior()
    folder = deepspeech_data / 'deepspeech-0.9.3'
    config = Config(
        data=DataConfig(alphabet_config_path=ALPHABET),
        model=ModelConfig(n_hidden=100),
        checkpoints=CheckpointConfig(load_dir=str(folder / 'ldc93s1' / 'checkpoint')),
        one_shot_infer=str(folder / 'ldc93s1' / file),
    )
    text = one_shot_infer(config, Alphabet.from_file(ALPHABET))
    assert Levenshtein.distance(text, expected) <= most_errors, text


def test_its_test_report(deepspeech_data: Path, tmp_path: Path) -> None:
    tf.compat.v1.disable_v2_behavior()
    folder = deepspeech_data / 'deepspeech-0.9.3' / 'resume-check'
    config = Config(
        data=DataConfig(test_files=(str(folder / 'dev.csv'),), test_batch_size=3, alphabet_config_path=ALPHABET),
        model=ModelConfig(n_hidden=64),
        checkpoints=CheckpointConfig(load_dir=str(folder / 'checkpoint')),
        report=ReportConfig(show_progressbar=False, report_count=0),
        decoding=DecodingConfig(beam_width=500),
    )
    alphabet = Alphabet.from_file(ALPHABET)
    sets = check_data(config.data, config.features, alphabet, save_dir=str(tmp_path), show_progressbar=False)
    ours = {Path(t.wav_filename).name: t for t in transcriptions(config, sets, alphabet)}
    theirs = {Path(row['wav_filename']).name: row for row in json.loads((folder / 'test_output.json').read_text())}
    assert ours.keys() == theirs.keys()
    for name, row in theirs.items():
        assert ours[name].src == row['src']
        assert ours[name].loss == pytest.approx(row['loss'], rel=1e-4), name
        assert ours[name].char_length == row['char_length']
    assert np.mean([ours[name].res == row['res'] for name, row in theirs.items()]) == 1.0
