"""Language models and decoder settings that cannot be: every program says so before it works, in the same words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import evaluate
import lm_optimizer
import pytest
import transcribe

from deepspeech_training import cli
from deepspeech_training.config import Config
from deepspeech_training.decoding.lexicon_file import automaton_bytes, minimal_automaton
from deepspeech_training.decoding.scorer_file import HEADER, KENLM_MAGIC, MAGIC, VERSION
from tests.helpers import run_training
from tests.toy import toy_config

Program = Callable[[Config, list[str]], int]


@pytest.fixture(scope='module')
def toy(tmp_path_factory: pytest.TempPathFactory) -> Config:
    config = toy_config(tmp_path_factory.mktemp('model'), train=2, test=2)
    run_training(config)
    return config


@pytest.fixture(scope='module')
def scorers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of all kinds that are no language model for the toy language."""
    folder = tmp_path_factory.mktemp('scorers')
    (folder / 'folder').mkdir()
    (folder / 'empty').write_bytes(b'')
    (folder / 'text').write_text('no language model\n')
    (folder / 'cut.binary').write_bytes(KENLM_MAGIC + b' version 5\n\0' + b'\0' * 40)
    for name, words, for_bytes in (('bytes', [(1, 2), (3,)], True), ('english', [(8, 20), (27,)], False)):
        start = KENLM_MAGIC.ljust(256, b'\0') + HEADER.pack(MAGIC, VERSION, for_bytes, 1.0, 1.0)
        whole = start + automaton_bytes(minimal_automaton(words, 0), len(start))
        (folder / f'{name}.scorer').write_bytes(whole)
        (folder / f'cut_{name}.scorer').write_bytes(whole[:-20])
    return folder


def flags_of(config: Config) -> list[str]:
    return [
        f'--checkpoint_dir={config.checkpoints.load_dir}',
        f'--summary_dir={config.report.summary_dir}',
        f'--alphabet_config_path={config.data.alphabet_config_path}',
        '--n_hidden=16',
    ]


def program_that_tests(config: Config, more: list[str]) -> int:
    return cli.main([*flags_of(config), f'--test_files={config.data.test_files[0]}', *more])


def program_that_trains(config: Config, more: list[str]) -> int:
    sets = [f'--train_files={config.data.train_files[0]}', f'--dev_files={config.data.test_files[0]}', '--epochs=3']
    return cli.main([*flags_of(config), *sets, '--dev_wer_every=1', *more])


def program_that_transcribes(config: Config, more: list[str]) -> int:
    return transcribe.main([config.checkpoints.load_dir, str(Path(config.data.test_files[0]).parent), *more])


def program_that_evaluates(config: Config, more: list[str]) -> int:
    return evaluate.main([config.checkpoints.load_dir, config.data.test_files[0], *more])


def program_that_optimizes(config: Config, more: list[str]) -> int:
    return lm_optimizer.main([config.checkpoints.load_dir, config.data.test_files[0], *more])


PROGRAMS: list[Program] = [
    program_that_tests,
    program_that_trains,
    program_that_transcribes,
    program_that_evaluates,
    program_that_optimizes,
]


def assert_refused(
    program: Program, config: Config, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(Path(config.checkpoints.save_dir).iterdir())
    assert program(config, more) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert 'Traceback' not in captured.err
    assert 'Epoch' not in captured.err
    assert captured.out == ''
    assert sorted(Path(config.checkpoints.save_dir).iterdir()) == before


@pytest.mark.parametrize(
    ('name', 'reason'),
    [
        ('missing', 'No such file or directory'),
        ('folder', 'Is a directory'),
        ('empty', 'the file is empty'),
        ('text', 'is no .scorer, no KenLM binary, and no ARPA file with words'),
        ('cut.binary', 'is a KenLM binary without the words of its model, or a .scorer that is cut off'),
        ('cut_english.scorer', 'is damaged ('),
        ('bytes.scorer', 'was made for a model that writes bytes of UTF-8 (--bytes_output_mode)'),
        ('english.scorer', 'was made with another alphabet'),
    ],
)
@pytest.mark.parametrize('program', PROGRAMS, ids=lambda program: program.__name__)
def test_files_that_are_no_scorer_for_the_model(
    program: Program, name: str, reason: str, toy: Config, scorers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(scorers / name)
    assert_refused(program, toy, ['--scorer_path', path], f'--scorer_path={path}: {reason}', capsys)


@pytest.mark.parametrize(
    ('more', 'message'),
    [
        (['--beam_width=0'], '--beam_width=0: must be at least 1'),
        (['--beam_width=-5'], '--beam_width=-5: must be at least 1'),
        (['--cutoff_prob=0'], '--cutoff_prob=0.0: must be above 0 and at most 1'),
        (['--cutoff_prob=nan'], '--cutoff_prob=nan: must be above 0 and at most 1'),
        (['--cutoff_top_n=0'], '--cutoff_top_n=0: must be at least 1'),
        (['--lm_alpha=0.5'], '--lm_alpha=0.5: is about a language model; give --scorer_path too'),
        (['--lm_beta=-1'], '--lm_beta=-1.0: is about a language model; give --scorer_path too'),
        (['--lm_alpha=nan', '--scorer_path=x'], '--lm_alpha=nan: must be a number'),
        (['--lm_beta=inf', '--scorer_path=x'], '--lm_beta=inf: must be a number'),
        (['--hot_words=ab:3'], '--hot_words=ab:3: is about a language model; give --scorer_path too'),
        (['--hot_words=ab', '--scorer_path=x'], "--hot_words=ab: 'ab' is no word with a boost, such as computer:5"),
        (['--hot_words=ab:nan', '--scorer_path=x'], "--hot_words=ab:nan: 'ab:nan' is no word with a boost"),
    ],
)
@pytest.mark.parametrize('program', PROGRAMS, ids=lambda program: program.__name__)
def test_settings_that_cannot_be(
    program: Program, more: list[str], message: str, toy: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    if program is program_that_optimizes and not any(each.startswith('--scorer') for each in more):
        more = [*more, '--scorer_path=x'] if 'about a language model' not in message else more
        message = message if '--scorer_path=x' in more else '--scorer_path: give the language model'
    assert_refused(program, toy, more, message, capsys)
