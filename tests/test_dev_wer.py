"""Word error rates on dev sets in training runs: what is computed when, what the best model is, resuming."""

from __future__ import annotations

import json
import logging
import math
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deepspeech_training.checkpoints import BEST, LAST, find_checkpoint
from deepspeech_training.config import Config
from deepspeech_training.dev_transcripts import DevTranscriber, as_markdown
from deepspeech_training.errors import TrainingInterruptedError
from deepspeech_training.parallel.strategy import StepResult
from deepspeech_training.text.metrics import Transcription
from tests.helpers import events, run_training, scalars
from tests.test_resume import assert_same_run, run_stopped_after
from tests.toy import random_texts, toy_config, write_corpus

EPOCHS, STEPS = 8, 3  # and steps an epoch


def config_of(folder: Path, epochs: int = EPOCHS) -> Config:
    """A model that learns to write while it is trained."""
    config = toy_config(folder, train=12, dev=6, batch_size=4, epochs=epochs, n_hidden=32)
    other = write_corpus(folder / 'corpus', 'other', random_texts(2, seed=9))
    return replace(
        config,
        data=replace(config.data, dev_files=(*config.data.dev_files, other)),
        optimizer=replace(config.optimizer, learning_rate=0.005),
        parallel=replace(config.parallel, inter_op_threads=1, intra_op_threads=1),
        schedule=replace(config.schedule, dev_wer_every=2, best_by='wer'),
    )


@pytest.fixture(scope='module')
def beginner(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The checkpoints of a model that is about to find the first words."""
    config = toy_config(tmp_path_factory.mktemp('beginner'), train=12, batch_size=4, epochs=10, n_hidden=32)
    run_training(replace(config, optimizer=replace(config.optimizer, learning_rate=0.005)))
    return config.checkpoints.save_dir


def beginning_with(beginner: str, config: Config) -> Config:
    return replace(config, checkpoints=replace(config.checkpoints, load_dir=beginner))


@pytest.fixture(scope='module')
def whole(beginner: str, tmp_path_factory: pytest.TempPathFactory) -> Config:
    config = beginning_with(beginner, config_of(tmp_path_factory.mktemp('whole')))
    run_training(config)
    return config


def state_of(path: str | None) -> dict[str, Any]:
    assert path is not None
    state: dict[str, Any] = json.loads(Path(f'{path}.json').read_text(encoding='utf-8'))['run']
    return state


def test_the_best_model_has_the_lowest_word_error_rate(whole: Config) -> None:
    folder = Path(whole.report.summary_dir) / 'dev'
    rates, losses = scalars(folder, 'epoch_wer'), scalars(folder, 'epoch_loss')
    assert len(rates) == EPOCHS // 2
    assert list(rates) == list(losses)[1::2]
    assert min(rates.values()) < max(rates.values()), 'this model does not tell'
    best = min(rates, key=lambda step: (rates[step], losses[step]))
    state = state_of(find_checkpoint(whole.checkpoints.save_dir, BEST))
    assert (state['step'], state['best_by']) == (best, 'wer')
    assert state['dev_wer'] == state['best_wer'] == pytest.approx(rates[best])
    assert state['best_wer_loss'] == pytest.approx(losses[best])
    last = state_of(find_checkpoint(whole.checkpoints.save_dir, LAST))
    assert last['best_loss'] == pytest.approx(min(losses.values())), 'plateau and early stop go by it'


def test_each_dev_set_has_its_rates_and_all_together(whole: Config) -> None:
    folder = Path(whole.report.summary_dir) / 'dev'
    first, second = (scalars(folder, f'wer/{name}') for name in whole.data.dev_files)
    for step, rate in scalars(folder, 'epoch_wer').items():
        assert rate == pytest.approx((6 * first[step] + 2 * second[step]) / 8), 'each utterance is one word'


def test_a_run_that_was_stopped_is_the_run_it_would_have_been(whole: Config, beginner: str, tmp_path: Path) -> None:
    config = beginning_with(beginner, config_of(tmp_path))
    last = state_of(find_checkpoint(whole.checkpoints.save_dir, LAST))['step']
    with pytest.raises(TrainingInterruptedError):
        run_stopped_after(config, last - 2 * STEPS - 1)
    run_training(config)
    assert_same_run(config, whole)
    ours, theirs = (state_of(find_checkpoint(each.checkpoints.save_dir, BEST)) for each in (config, whole))
    assert ours['step'] == theirs['step']


def test_stopped_while_it_decodes(tmp_path: Path) -> None:
    config = config_of(tmp_path, epochs=2)
    take = DevTranscriber.take

    def stop(transcriber: DevTranscriber, result: StepResult) -> None:
        take(transcriber, result)
        if not stopped:
            stopped.append(True)
            os.kill(os.getpid(), signal.SIGTERM)

    stopped: list[bool] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DevTranscriber, 'take', stop)
        with pytest.raises(TrainingInterruptedError):
            run_training(config)
    assert state_of(find_checkpoint(config.checkpoints.save_dir, LAST))['epoch'] == 1, 'the second is not over'
    run_training(config)
    for tag in ('epoch_wer', f'transcripts/{config.data.dev_files[1]}'):
        written = [
            event.step for event in events(tmp_path / 'summaries' / 'dev') for v in event.summary.value if v.tag == tag
        ]
        assert written == [2 * STEPS]


def test_another_best_by_than_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The best checkpoint stays until one is better by the new measure; each start says so until then."""
    config = config_of(tmp_path)
    schedules = [
        replace(config.schedule, epochs=1, best_by='loss', dev_wer_every=0),
        replace(config.schedule, epochs=2),
        replace(config.schedule, epochs=3, best_by='loss'),
    ]
    steps = []
    for schedule in schedules:
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            run_training(replace(config, schedule=schedule))
        steps.append(state_of(find_checkpoint(config.checkpoints.save_dir, BEST))['step'])
        if schedule is schedules[1]:
            assert (
                '--best_by=wer: the best checkpoint was chosen by dev loss; it stays until an epoch has a dev WER'
                in caplog.text
            )
    assert steps[:2] == [STEPS, 2 * STEPS]
    assert (
        '--best_by=loss: the best checkpoint was chosen by dev WER; it stays until an epoch has a dev loss'
        in caplog.text
    )
    lowest = min(scalars(Path(config.report.summary_dir) / 'dev', 'epoch_loss').values())
    assert state_of(find_checkpoint(config.checkpoints.save_dir, LAST))['best_loss'] == pytest.approx(lowest)


def transcription(number: int, res: str) -> Transcription:
    return Transcription.of(f'{number}.wav', 'a b c d', res, float(number))


def test_the_worst_and_some_others_are_shown() -> None:
    said = [transcription(number, 'a b c d'[: 2 * (number % 4) + 1]) for number in range(40)]
    tables = as_markdown(said, 3, 'seed').split('**Random**')
    assert [line.split('|')[1].strip() for line in tables[0].splitlines() if '.wav' in line.replace('&#46;', '.')] == [
        '0.750'
    ] * 3
    assert tables[0].index('36&#46;wav') < tables[0].index('32&#46;wav')  # of equal ones the higher loss first
    assert as_markdown(said, 3, 'seed') == '**Random**'.join(tables)
    assert as_markdown(said, 3, 'other').split('**Random**')[1] != tables[1]
    assert as_markdown(said[:2], 5, '').count('&#46;wav') == 4
    assert '&#46;wav' not in as_markdown(said, 0, '')


def test_transcripts_are_no_markup() -> None:
    shown = as_markdown([Transcription.of('a_b.wav', 'x | y', '<b>*x*</b>', math.nan)], 1, '')
    assert '| 2.000 | x &#124; y | &#60;b&#62;&#42;x&#42;&#60;/b&#62; | a&#95;b&#46;wav |' in shown.replace(
        '0.667', '2.000'
    ).replace('1.000', '2.000')
