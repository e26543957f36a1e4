"""Checkpoints to export: DeepSpeech's own, and random ones for models of any kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.config import CheckpointConfig, Config, ExportConfig, ModelConfig
from deepspeech_training.export.inference_graph import create_inference_graph
from deepspeech_training.text.alphabet import Alphabet

tfv1 = tf.compat.v1

Outputs = dict[str, np.ndarray]


@pytest.fixture
def alphabet() -> Alphabet:
    """That of DeepSpeech's English models."""
    return Alphabet(" abcdefghijklmnopqrstuvwxyz'", 'alphabet.txt')


def write_random_checkpoint(config: Config, alphabet: Alphabet, folder: Path) -> Config:
    """Writes a checkpoint with random weights for a configuration, and returns the latter with its folder."""
    random = np.random.default_rng(1)
    tfv1.disable_v2_behavior()
    with tf.Graph().as_default(), tfv1.Session() as session:
        create_inference_graph(config, alphabet.size + 1, lstm='block')
        for variable in tfv1.global_variables():
            variable.load(random.normal(scale=0.3, size=variable.shape).astype(np.float32), session)
        saver = tfv1.train.Saver()
        folder.mkdir(exist_ok=True)
        saver.save(session, str(folder / 'train'), global_step=1, write_meta_graph=False)
    return dataclasses.replace(config, checkpoints=CheckpointConfig(load_dir=str(folder)))


@pytest.fixture
def random_checkpoint(tmp_path: Path) -> Callable[[Config, Alphabet], Config]:
    """Does so below `tmp_path`."""

    def write(config: Config, alphabet: Alphabet) -> Config:
        return write_random_checkpoint(
            config, alphabet, tmp_path / f'checkpoint_{config.model.n_hidden}_{alphabet.size}'
        )

    return write


@pytest.fixture
def small(tmp_path: Path, alphabet: Alphabet, random_checkpoint: Callable[[Config, Alphabet], Config]) -> Config:
    """A small model with a checkpoint, ready to be exported to `tmp_path / 'export'`."""
    config = Config(model=ModelConfig(n_hidden=12), export=ExportConfig(export_dir=str(tmp_path / 'export')))
    return random_checkpoint(config, alphabet)


@pytest.fixture
def resume_check(deepspeech_data: Path, tmp_path: Path) -> Config:
    """DeepSpeech's checkpoint of which `resume-check/output_graph.pb` is its own export."""
    return Config(
        model=ModelConfig(n_hidden=64),
        checkpoints=CheckpointConfig(load_dir=str(deepspeech_data / 'deepspeech-0.9.3/resume-check/checkpoint')),
        export=ExportConfig(export_dir=str(tmp_path / 'export')),
    )
