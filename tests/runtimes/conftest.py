"""A model as a training leaves it, and what is exported of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from deepspeech_training.config import Config, ExportConfig
from deepspeech_training.export.formats import export_model
from deepspeech_training.text.alphabet import Alphabet
from tests.helpers import run_training
from tests.toy import toy_config


@pytest.fixture(scope='session')
def toy(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A checkpoint of a few updates of the toy language, with what the trainer keeps beside it."""
    config = toy_config(tmp_path_factory.mktemp('runtimes'), train=4, epochs=2, n_hidden=12)
    run_training(config)
    return config


@pytest.fixture(scope='session')
def frozen(toy: Config, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of its export as a graph for 5 frames at a time."""
    return exported(toy, ExportConfig(export_dir=str(tmp_path_factory.mktemp('frozen')), n_steps=5, beam_width=77))


def exported(config: Config, export: ExportConfig) -> str:
    """The path of the model."""
    alphabet = Alphabet.from_file(config.data.alphabet_config_path)
    paths = export_model(replace(config, export=export), alphabet)
    suffix = '.tflite' if export.tflite else '.pb'
    return next(path for path in paths if path.endswith(suffix))


@pytest.fixture(scope='session')
def exports(toy: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of its exports as SavedModel, ONNX and TFLite without quantization."""
    folder = tmp_path_factory.mktemp('exports')
    exported(toy, ExportConfig(export_dir=str(folder), savedmodel=True, onnx=True, tflite=True, quantize=False))
    return folder


@pytest.fixture(scope='session')
def samples() -> npt.NDArray[np.float32]:
    """A second of noise that comes and goes."""
    noise = np.random.default_rng(1).normal(scale=0.2, size=16000) * np.sin(np.arange(16000) / 900)
    return np.clip(noise, -1, 1).astype(np.float32)
