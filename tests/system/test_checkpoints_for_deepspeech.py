"""Checkpoints of this trainer are read by TensorFlow 1.15, with which DeepSpeech 0.9.3 runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.checkpoints import LAST, find_checkpoint
from deepspeech_training.checkpoints.tensors import read_shapes
from tests.helpers import run_training
from tests.toy import toy_config

from .clients import TENSORFLOW_1, ask

ALPHABET = str(Path(__file__).parents[2] / 'data' / 'alphabet.txt')


def test_all_variables_are_restored_and_none_is_surplus(deepspeech_data: Path, tmp_path: Path) -> None:
    """By the names and shapes of a checkpoint that DeepSpeech 0.9.3 wrote itself."""
    config = toy_config(tmp_path, train=2, batch_size=2, epochs=1, n_hidden=64)
    run_training(replace(config, data=replace(config.data, alphabet_config_path=ALPHABET)))
    ours = find_checkpoint(config.checkpoints.save_dir, LAST)
    assert ours is not None
    theirs = str(deepspeech_data / 'deepspeech-0.9.3' / 'resume-check' / 'checkpoint' / 'train-12')
    wanted = read_shapes(theirs)
    assert read_shapes(ours) == wanted
    answer = ask(TENSORFLOW_1, {'path': ours, 'shapes': wanted}).result
    assert answer['version'] == '1.15.5'
    reader = tf.train.load_checkpoint(ours)
    for name in wanted:
        total = float(np.sum(reader.get_tensor(name), dtype=np.float64))
        assert answer['sums'][name] == pytest.approx(total, rel=1e-9, abs=1e-12), name
