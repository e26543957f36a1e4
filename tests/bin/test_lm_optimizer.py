"""bin/lm_optimizer.py: it finds good weights, goes on where it was, and says what is wrong."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import lm_optimizer
import numpy as np
import pytest

from deepspeech_training.config import Config, DecodingConfig
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.tuning.counting import Counter, Counters, Errors, Settings, lengths
from deepspeech_training.tuning.outputs import Outputs, kept_outputs
from deepspeech_training.tuning.search import best_of, search
from deepspeech_training.tuning.study import Space, Study, Trial
from tests.helpers import run_training
from tests.toy import random_texts, toy_config

PROGRAM = str(Path(__file__).resolve().parents[2] / 'bin' / 'lm_optimizer.py')


@pytest.fixture(scope='module')
def toy(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A model of the toy language that makes mistakes, and a dev set."""
    config = toy_config(tmp_path_factory.mktemp('model'), train=8, dev=8, epochs=20, n_hidden=16)
    config = replace(config, optimizer=replace(config.optimizer, learning_rate=0.01))
    run_training(replace(config, data=replace(config.data, dev_files=())))
    return config


@pytest.fixture(scope='module')
def arpa(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Words of the dev set, which has seed 1, and others; some are likely, some are not."""
    words = sorted({*random_texts(8, seed=1), *random_texts(40, seed=7)})
    lines = ['\\data\\', f'ngram 1={len(words) + 3}', 'ngram 2=1', '', '\\1-grams:']
    lines += ['-3.0\t<unk>', '0\t<s>\t0', '-1.0\t</s>']
    lines += [f'{-1 - 0.5 * (number % 5)}\t{word}\t0' for number, word in enumerate(words)]
    lines += ['', '\\2-grams:', f'-0.5\t<s> {words[0]}', '', '\\end\\', '']
    path = tmp_path_factory.mktemp('scorer') / 'words.arpa'
    path.write_text('\n'.join(lines))
    return str(path)


def arguments(toy: Config, arpa: str, *more: str) -> list[str]:
    return [toy.checkpoints.load_dir, *toy.data.dev_files, '--scorer_path', arpa, '--beam_width', '16', *more]


def rates(out: str) -> dict[str, float]:
    """WER by what it is of, from the table."""
    row = r"^(no language model|the scorer's own weights|best of).*?([\d.]+)%\s+[\d.]+%$"
    return {name: float(wer) for name, wer in re.findall(row, out, re.MULTILINE)}


def test_the_best_weights_beat_others_and_the_search_goes_on(
    toy: Config, arpa: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    study = str(tmp_path / 'new' / 'study.sqlite')
    command = arguments(toy, arpa, '--study', study, '--n_trials')
    with caplog.at_level('INFO'):
        assert lm_optimizer.main([*command, '30']) == 0
    first = capsys.readouterr().out
    found = rates(first)
    assert found['best of'] < found['no language model']
    assert found['best of'] <= found["the scorer's own weights"]
    assert 'best of 30 trials' in first
    assert 'in ' + study + '.logits already' not in caplog.text

    with caplog.at_level('INFO'):
        assert lm_optimizer.main([*command, '40']) == 0
    second = capsys.readouterr().out
    assert 'best of 40 trials' in second
    assert rates(second)['best of'] <= found['best of']
    assert f'What the model hears is in {study}.logits already: 8 utterances' in caplog.text
    with caplog.at_level('INFO'):
        assert lm_optimizer.main([*command, '35']) == 0
    assert capsys.readouterr().out == second
    assert '40 trials are done already' in caplog.text

    caplog.clear()  # the flags that were printed give this result
    (flags,) = re.findall(r'^--lm_alpha .*$', second, re.MULTILINE)
    assert lm_optimizer.main(arguments(toy, arpa, '--n_trials', '1', *flags.split())) == 0
    assert rates(capsys.readouterr().out)["the scorer's own weights"] == rates(second)['best of']


def test_everything_is_searched_by_several_processes(
    toy: Config, arpa: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    searched = ['--search_beam', '--search_cutoffs', '--objective', 'cer', '--processes', '2', '--n_trials', '12']
    assert lm_optimizer.main(arguments(toy, arpa, '--study', str(tmp_path / 'study'), *searched)) == 0
    out = capsys.readouterr().out
    row = r'^--lm_alpha (\S+) --lm_beta (\S+) --beam_width (\d+) --cutoff_prob (\S+) --cutoff_top_n (\d+)$'
    (flags,) = re.findall(row, out, re.MULTILINE)
    assert 0 <= float(flags[0]) <= 5
    assert 1 <= int(flags[2]) <= 16


def test_ctrl_c_keeps_what_is_done(toy: Config, arpa: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = tmp_path / 'study.sqlite'
    command = [sys.executable, PROGRAM, *arguments(toy, arpa, '--study', str(study), '--processes', '2')]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while trials_in(study) < 4:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert 'Traceback' not in err
    assert f'Interrupted; the same command goes on with {study}' in err
    assert rates(out).keys() == {'no language model', "the scorer's own weights", 'best of'}
    done = trials_in(study)
    assert done >= 4
    assert f'best of {done} trials' in out
    assert lm_optimizer.main(arguments(toy, arpa, '--study', str(study), '--n_trials', str(done))) == 0
    assert capsys.readouterr().out == out


def trials_in(study: Path) -> int:
    try:
        with closing(sqlite3.connect(f'file:{study}?mode=ro', uri=True)) as database:
            over = database.execute("SELECT COUNT(*) FROM trials WHERE state IN ('COMPLETE', 'PRUNED')")
            return int(over.fetchone()[0])
    except sqlite3.OperationalError:  # not there yet, or locked
        return 0


@pytest.mark.parametrize(
    ('more', 'message'),
    [
        (['--beam_width', '0'], '--beam_width=0: must be at least 1'),
        (['--n_trials', '0'], '--n_trials=0: must be at least 1'),
        (['--processes', '0'], '--processes=0: must be at least 1'),
        (['--lm_alpha_max', '0'], '--lm_alpha_max=0.0: must be a number above 0'),
        (['--lm_beta_max', 'nan'], '--lm_beta_max=nan: must be a number above 0'),
        (['--lm_alpha', 'nan'], '--lm_alpha=nan: must be a number'),
        (['--cutoff_prob', '2'], '--cutoff_prob=2.0: must be above 0 and at most 1'),
        (['--scorer_path', ''], '--scorer_path: give the language model whose weights are wanted'),
        (['--scorer_path', 'missing.scorer'], '--scorer_path=missing.scorer: No such file or directory'),
        (['--scorer_path', '.'], '--scorer_path=.: Is a directory'),
        (['--hot_words', 'a'], "--hot_words=a: 'a' is no word with a boost"),
        (['--write_scorer', 'a', '--update_scorer'], '--write_scorer and --update_scorer: give one of them'),
        (['--write_scorer', '.'], '--write_scorer=.: is a folder'),
        (['--write_scorer', 'new.scorer'], 'is no .scorer, which alone keeps weights'),
        (['--study', '.'], '--study=.: is a folder'),
    ],
)  # fmt: skip
def test_wrong_input(
    more: list[str],
    message: str,
    toy: Config,
    arpa: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert lm_optimizer.main(arguments(toy, arpa, *more)) == 2
    assert message in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_no_study(toy: Config, arpa: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = tmp_path / 'text'
    text.write_text('not a database, but long enough to be one' * 100)
    assert lm_optimizer.main(arguments(toy, arpa, '--study', str(text))) == 2
    assert f'--study={text}: cannot be used: file is not a database; give another file' in caplog.text


def test_a_study_of_something_else(toy: Config, arpa: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    command = arguments(toy, arpa, '--study', str(tmp_path / 'study'), '--n_trials', '1')
    assert lm_optimizer.main(command) == 0
    for more, what in (
        (['--lm_alpha_max', '3'], '--lm_alpha_max (5.0, now 3.0)'),
        (['--limit', '3'], 'model, data or transcripts ('),
        (['--beam_width', '17'], '--beam_width (16, now 17)'),
    ):
        caplog.clear()
        assert lm_optimizer.main([*command, *more]) == 2
        assert f'was begun with another {what}' in caplog.text


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    """Random ones of a model that hears little."""
    return random_outputs(tmp_path, np.random.default_rng(3))


def random_outputs(folder: Path, random: np.random.Generator) -> Outputs:
    texts = random_texts(8, seed=1)
    tables = []
    for text in texts:
        certain = [' abc_'.index(character) for letter in text for character in f'{letter}_']
        table = random.normal(size=(len(certain), 5)).astype(np.float32)
        table[np.arange(len(certain)), certain] += 1.5
        tables.append(table)
    path = folder / 'logits'
    path.write_bytes(b''.join(table.tobytes() for table in tables))
    return Outputs(str(path), [len(table) for table in tables], texts, 5)


def test_a_trial_that_is_given_up_could_not_have_won(outputs: Outputs, arpa: str) -> None:
    alphabet = Alphabet(' abc', 'toy')
    decoding = DecodingConfig(beam_width=8, scorer_path=arpa)
    counter = Counter(outputs, decoding, alphabet)
    own = Settings(1.0, 1.0, 8, 1.0, 300)
    baseline = Trial(own, counter.count(own, False, None))
    study = Study('', Space(5.0, 5.0, own), {}, by_characters=False, several=False)
    seen: list[int] = []
    with Counters(outputs, decoding, alphabet, 1) as counters:
        search(study, counters, 40, False, baseline, lambda trials, least: seen.append(least))
    assert len(seen) == study.done == 40
    assert seen == sorted(seen, reverse=True)
    best = best_of(study, baseline, False)
    assert best.errors.words == seen[-1]
    trials = study._study.trials
    given_up = [trial for trial in trials if trial.state.name == 'PRUNED']
    assert given_up
    assert len(given_up) < len(trials)
    for trial in given_up:
        whole = counter.count(Settings(trial.params['alpha'], trial.params['beta'], 8, 1.0, 300), False, None)
        assert whole.words > best.errors.words


def test_of_equally_good_settings_the_fastest_wins() -> None:
    def trial(width: int, top: int, characters: int = 5) -> Trial:
        return Trial(Settings(1.0, 1.0, width, 1.0, top), Errors(3, characters, 8))

    trials = [trial(100, 20), trial(50, 30), trial(50, 20), trial(10, 10, characters=6)]
    assert min(trials, key=lambda each: each.rank(False)) == trials[2]


def test_nothing_said_is_no_error(outputs: Outputs) -> None:
    assert lengths(['a b', '', 'c']) == (3, 4)


@pytest.mark.parametrize('content', [b'', b'abc', b'x' * 100, b'{"frames": [1]}' + b'\x0f' + b'\0' * 7])
def test_a_damaged_file_of_outputs_is_not_used(tmp_path: Path, content: bytes) -> None:
    (tmp_path / 'logits').write_bytes(content)
    assert kept_outputs(str(tmp_path / 'logits'), 'key') is None
    assert kept_outputs(str(tmp_path / 'missing'), 'key') is None
