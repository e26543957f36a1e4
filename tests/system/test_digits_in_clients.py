"""A model of connected digits says the same in the clients as in the trainer, on every test utterance.

It is trained once, for about a minute, and kept in the user's cache directory.
"""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path

import pytest

from deepspeech_training.config import (
    CheckpointConfig,
    Config,
    DataConfig,
    DecodingConfig,
    ExportConfig,
    FeatureConfig,
    ModelConfig,
    OptimizerConfig,
    ReportConfig,
    ScheduleConfig,
)
from deepspeech_training.data.checks import check_data
from deepspeech_training.evaluate import evaluate
from deepspeech_training.export.formats import export_model
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.metrics import Transcription, error_rates
from tests.helpers import run_training
from tests.system.clients import COQUI, DEEPSPEECH, DEEPSPEECH_TFLITE, Client, ask, cache, made_once

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent.parent
ALPHABET = Alphabet.from_file(str(ROOT / 'data' / 'alphabet.txt'))
BEAM_WIDTH = 100  # on both sides

Transcripts = dict[str, str]


@pytest.fixture(scope='module')
def digits(deepspeech_data: Path) -> Path:
    return deepspeech_data / 'digits'


@pytest.fixture(scope='module')
def model(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A model that makes few errors, but some."""
    folder = cache('models') / 'digits-128'
    config = Config(
        features=FeatureConfig(sample_rate=8000),
        model=ModelConfig(n_hidden=128, dropout=(0.1, 0.1, 0.1, 0.0, 0.0, 0.1)),
        data=DataConfig(
            train_files=(str(digits / 'train.csv'),),
            dev_files=(str(digits / 'dev.csv'),),
            train_batch_size=8,
            dev_batch_size=16,
            shuffle_batches=True,
            alphabet_config_path=ALPHABET.path,
        ),
        optimizer=OptimizerConfig(learning_rate=0.002),
        schedule=ScheduleConfig(epochs=8),
        checkpoints=CheckpointConfig(load_dir=str(folder), save_dir=str(folder)),
        report=ReportConfig(summary_dir=str(tmp_path_factory.mktemp('summaries')), show_progressbar=False),
    )
    with made_once(folder) as missing:
        if missing:
            run_training(config)
    return config


@pytest.fixture(scope='module')
def expected(model: Config, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Transcripts:
    """What the trainer recognises, by file."""
    output = tmp_path_factory.mktemp('expected') / 'test.json'
    report = ReportConfig(test_output_file=str(output), show_progressbar=False)
    data = dataclasses.replace(
        model.data, train_files=(), dev_files=(), test_files=(str(digits / 'test.csv'),), test_batch_size=16
    )
    config = dataclasses.replace(model, data=data, report=report, decoding=DecodingConfig(beam_width=BEAM_WIDTH))
    data_sets = check_data(
        config.data, config.features, ALPHABET, save_dir=model.checkpoints.save_dir, show_progressbar=False
    )
    evaluate(config, data_sets, ALPHABET)
    samples = json.loads(output.read_text(encoding='utf-8'))
    return {sample['wav_filename']: sample['res'] for sample in samples}


def transcripts(client: Client, config: Config, folder: Path, files: list[str], **export: bool) -> Transcripts:
    config = dataclasses.replace(config, export=ExportConfig(export_dir=str(folder), **export))  # type: ignore[arg-type]
    question = {'model': export_model(config, ALPHABET)[0], 'audio': files, 'beam_width': BEAM_WIDTH, 'chunk': 0}
    return dict(zip(files, ask(client, question).result['batch'], strict=True))


def test_the_frozen_graph_says_what_the_trainer_says(model: Config, expected: Transcripts, tmp_path: Path) -> None:
    assert len(expected) == 105
    assert len(set(expected.values())) > 50
    assert transcripts(DEEPSPEECH, model, tmp_path, list(expected)) == expected


@pytest.mark.parametrize('client', [DEEPSPEECH_TFLITE, COQUI], ids=lambda client: client.requirement)
def test_8_bits_say_nearly_the_same(
    client: Client, model: Config, expected: Transcripts, digits: Path, tmp_path: Path
) -> None:
    quantized = transcripts(client, model, tmp_path, list(expected), tflite=True)
    assert sum(quantized[file] == expected[file] for file in expected) >= 95
    with (digits / 'test.csv').open(encoding='utf-8') as file:
        spoken = {str(digits / row['wav_filename']): row['transcript'] for row in csv.DictReader(file)}
    rates = [
        error_rates([Transcription.of(file, spoken[file], said[file], 0.0) for file in expected])[0]
        for said in (expected, quantized)
    ]
    assert rates[1] < rates[0] + 0.02


def test_float32_in_tensorflow_lite_says_the_same(model: Config, expected: Transcripts, tmp_path: Path) -> None:
    """A part of them: old runtimes are slow with it."""
    files = sorted(expected)[::5]
    got = transcripts(COQUI, model, tmp_path, files, tflite=True, quantize=False)
    assert got == {file: expected[file] for file in files}
