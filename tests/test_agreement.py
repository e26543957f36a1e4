"""Ranks compare their data and settings before they train: each difference is named, once, with its ranks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from deepspeech_training import log
from deepspeech_training.agreement import MAY_DIFFER, check_data_together, settings
from deepspeech_training.audio.reading import AudioInfo, audio_info
from deepspeech_training.config import Config
from deepspeech_training.data import probing
from deepspeech_training.data.checks import DataSets
from deepspeech_training.errors import DataError, FlagError, JobError
from deepspeech_training.text.alphabet import Alphabet

from .gang import Rank, run_ranks
from .toy import random_texts, toy_config, write_corpus

RANKS = 3


def changed(config: Config, attribute: str, value: Any) -> Config:
    """`config` with one value changed; `attribute` as in 'data.limit_train'."""
    part, _, name = attribute.partition('.')
    return replace(config, **{part: replace(getattr(config, part), **{name: value})})


def attributes(config: Config) -> set[str]:
    """The names of all values, as in 'data.limit_train'."""
    return {
        name
        for part, content in asdict(config).items()
        for name in ([f'{part}.{member}' for member in content] if isinstance(content, dict) else [part])
    }


def together(config_of: Callable[[int], Config]) -> list[DataSets | Exception]:
    """Each rank with a configuration of its own, on two hosts."""

    def work(rank: Rank) -> DataSets:
        config = config_of(rank.rank)
        alphabet = Alphabet.from_file(config.data.alphabet_config_path)
        return check_data_together(rank, config, alphabet, f'node{rank.rank // 2}')

    return run_ranks(RANKS, work)


def refusal(results: list[DataSets | Exception], kind: type[Exception]) -> list[str]:
    """The lines that rank 0 tells; the others only end with it."""
    assert type(results[0]) is kind
    assert [type(result) for result in results[1:]] == [JobError] * (RANKS - 1)
    return str(results[0]).splitlines()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return toy_config(tmp_path, train=5, dev=2, test=3)


def test_ranks_that_agree_have_the_same_data(config: Config, capsys: pytest.CaptureFixture[str]) -> None:
    log.setup(1)
    results = together(lambda _: config)
    assert all(isinstance(result, DataSets) for result in results)
    assert results == [results[0]] * RANKS
    assert 'I Horovod: 3 processes (2 on node0, 1 on node1), learning rate x 1' in capsys.readouterr().err.splitlines()


def test_the_ranks_of_a_host_open_each_audio_file_once(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def slowly(path: str) -> AudioInfo:
        opened.append(path)
        time.sleep(0.05)
        return audio_info(path)

    monkeypatch.setattr(probing, 'audio_info', slowly)
    assert all(isinstance(result, DataSets) for result in together(lambda _: config))
    assert len(opened) == len(set(opened)) == 10


def test_what_each_rank_may_have_for_itself(config: Config, tmp_path: Path) -> None:
    alphabet = tmp_path / 'alphabet of another host.txt'
    alphabet.write_text(Path(config.data.alphabet_config_path).read_text())

    def of(rank: int) -> Config:
        own = changed(config, 'checkpoints.save_dir', str(tmp_path / f'checkpoints_{rank}'))
        own = changed(own, 'report.summary_dir', f'summaries_{rank}')
        own = changed(own, 'parallel.intra_op_threads', rank)
        return changed(own, 'data.alphabet_config_path', str(alphabet)) if rank else own

    assert all(isinstance(result, DataSets) for result in together(of))


def test_names_of_settings_that_may_differ_exist() -> None:
    assert attributes(Config()) | {'export'} >= MAY_DIFFER


def test_every_other_setting_is_compared(config: Config) -> None:
    compared = settings(config, Alphabet.from_file(config.data.alphabet_config_path))
    may_differ = {name for name in attributes(config) if name in MAY_DIFFER or name.partition('.')[0] in MAY_DIFFER}
    assert attributes(config) - may_differ <= set(compared)
    assert may_differ.isdisjoint(compared)


def test_settings_that_differ_are_named_with_their_ranks(config: Config, tmp_path: Path) -> None:
    alphabet = tmp_path / 'other.txt'
    alphabet.write_text('c\nb\na\n \n')

    def of(rank: int) -> Config:
        own = changed(config, 'data.train_batch_size', 4 if rank == 1 else 2)
        return changed(own, 'data.alphabet_config_path', str(alphabet)) if rank == 2 else own

    lines = refusal(together(of), FlagError)
    assert lines[0] == 'the ranks have different settings; start all of them with the same flags and files:'
    assert lines[1] == 'data.train_batch_size: 2 on ranks 0, 2; 4 on rank 1'
    assert lines[2] == (
        "what is in data.alphabet_config_path: ' ' 'a' 'b' 'c' on ranks 0, 1; 'c' 'b' 'a' ' ' on rank 2"
    )
    assert len(lines) == 3


def test_rows_that_differ_are_shown(config: Config, tmp_path: Path) -> None:
    other = tmp_path / 'corpus' / 'other.csv'
    rows = Path(config.data.train_files[0]).read_text().splitlines()
    rows[3] = rows[3].rpartition(',')[0] + ',ca'
    other.write_text('\n'.join(rows) + '\n')

    lines = refusal(
        together(lambda rank: changed(config, 'data.train_files', (str(other),)) if rank == 1 else config), DataError
    )
    assert lines[0] == (
        'the ranks have different rows in the training data (5 rows on ranks 0, 1, 2): give all hosts the same files'
    )
    assert lines[1].startswith('sorted row ')
    name, size, transcript = rows[3].split(',')
    shown = f"{tmp_path}/corpus/{name} ({size} bytes, '{transcript}') on rank 1"
    assert shown in lines[1]
    assert 'on ranks 0, 2' in lines[1]


def test_rows_that_are_missing_are_counted(config: Config, tmp_path: Path) -> None:
    """A host lacks a file, and its bad samples are skipped."""
    fewer = write_corpus(tmp_path / 'fewer', 'dev', random_texts(2, seed=1))
    (tmp_path / 'fewer' / 'dev_1.wav').unlink()
    config = replace(config, data=replace(config.data, on_bad_sample='skip'))

    lines = refusal(
        together(lambda rank: changed(config, 'data.dev_files', (fewer,)) if rank == 2 else config), DataError
    )
    assert lines[0].startswith('the ranks have different rows in dev file 1 (2 rows on ranks 0, 1; 1 rows on rank 2)')


def test_the_same_problem_is_told_once(config: Config) -> None:
    lines = refusal(together(lambda _: changed(config, 'data.dev_files', ('gone.csv',))), DataError)
    assert lines[0] == '1 data set that cannot be used:'
    assert len(lines) == 2


def test_a_problem_of_one_rank_is_told_by_the_first_with_its_rank(config: Config) -> None:
    lines = refusal(
        together(lambda rank: changed(config, 'data.dev_files', ('gone.csv',)) if rank == 2 else config), DataError
    )
    assert lines[0] == 'rank 2: 1 data set that cannot be used:'
    assert 'gone.csv: cannot be read: No such file or directory' in lines[1]
