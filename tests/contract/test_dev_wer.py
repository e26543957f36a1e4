"""`--dev_wer_every` in every strategy: training is the same to the last bit, the figures are those of testing."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.audio.reading import read_audio
from deepspeech_training.checkpoints import LAST, find_checkpoint
from deepspeech_training.config import Config
from deepspeech_training.decoding import decoder_for
from deepspeech_training.dev_transcripts import as_markdown
from deepspeech_training.launch import find_launch
from deepspeech_training.runtimes import open_model
from deepspeech_training.text.metrics import Transcription, error_rates
from tests.helpers import run_training, scalars, texts
from tests.toy import toy_config

from .conftest import STRATEGIES, Case

CASES = [
    case
    for case in STRATEGIES
    if not case.parallel.optimizer_sharding and case.name not in ('hybrid-1', 'hybrid-3', 'sync-1')
]


@pytest.fixture(scope='module')
def talking(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A model that has learned a part of the language."""
    config = toy_config(tmp_path_factory.mktemp('talking'), train=12, dev=5, batch_size=4, epochs=25, n_hidden=32)
    config = replace(config, optimizer=replace(config.optimizer, learning_rate=0.005))
    run_training(replace(config, data=replace(config.data, dev_files=())))
    return config


def trained(config: Config, case: Case, folder: Path, every: int) -> Config:
    """A training that goes on with the model of `config`."""
    config = replace(
        config,
        data=replace(config.data, dev_batch_size=2),
        model=replace(config.model, dropout=(0.3,) * 6),
        schedule=replace(config.schedule, epochs=2, dev_wer_every=every),
        checkpoints=replace(config.checkpoints, save_dir=str(folder / 'checkpoints')),
        parallel=replace(case.parallel, inter_op_threads=1, intra_op_threads=1),
        report=replace(config.report, summary_dir=str(folder / 'curves')),
    )
    run_training(config)
    return config


def variables(config: Config) -> dict[str, np.ndarray]:
    path = find_checkpoint(config.checkpoints.save_dir, LAST)
    assert path is not None
    reader = tf.train.load_checkpoint(path)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def decoded(config: Config) -> list[Transcription]:
    """The dev set, sample by sample, with the last checkpoint."""
    found = []
    (path,) = config.data.dev_files
    with open_model(config.checkpoints.save_dir, load='last') as model, open(path, encoding='utf-8') as file:
        decoder = decoder_for(config.decoding, model.alphabet)
        for row in sorted(csv.DictReader(file), key=lambda row: int(row['wav_filesize'])):
            wav = str(Path(path).parent / row['wav_filename'])
            text = decoder.decode(model.logits(read_audio(wav, model.info.features)))
            found.append(Transcription.of(wav, row['transcript'], text, 0.0))
    return found


@pytest.mark.parametrize('case', CASES, ids=lambda case: case.name)
def test_training_is_the_same_and_the_word_error_rate_that_of_testing(
    case: Case, talking: Config, tmp_path: Path
) -> None:
    without = trained(talking, case, tmp_path / 'without', every=0)
    measured = trained(talking, case, tmp_path / 'with', every=2)
    if not find_launch().is_chief:  # the other ranks write neither checkpoints nor curves
        assert find_checkpoint(measured.checkpoints.save_dir, LAST) is None
        assert not (tmp_path / 'with' / 'curves').exists()
        return
    expected = variables(without)
    for name, value in variables(measured).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)

    found = decoded(measured)
    wer, cer, _ = error_rates(found)
    assert 0 < cer < 0.9, 'this model does not tell'
    curves, (name,) = tmp_path / 'with' / 'curves' / 'dev', measured.data.dev_files
    last = max(scalars(curves, 'epoch_loss'))
    for tag, rate in (('epoch_wer', wer), ('epoch_cer', cer), (f'wer/{name}', wer), (f'cer/{name}', cer)):
        assert scalars(curves, tag) == {last: pytest.approx(rate)}
    shown = texts(curves, f'transcripts/{name}')[last]
    for line in as_markdown(found, len(found), '').splitlines():
        assert line in shown
    assert not scalars(tmp_path / 'without' / 'curves' / 'dev', 'epoch_wer')
