"""Two hundred epochs in three processes: what grows from epoch to epoch would end a training of days."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from tests.helpers import events
from tests.toy import random_texts, write_alphabet, write_corpus

PROGRAM = str(Path(__file__).parents[2] / 'DeepSpeech.py')
EPOCHS = 200
STEPS = 2  # an epoch
STOPS = (70, 140)
PLATEAU = 15  # epochs
WARM_UP = 20  # epochs of each process, in which caches fill
GROWTH = 6e6  # bytes from the first to the last third of the epochs after that

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Use:
    """What a process has at a moment."""

    epoch: int
    memory: int  # bytes that no file has
    threads: int
    files: int

    @classmethod
    def of(cls, process: int, epoch: int) -> Use:
        folder = Path('/proc', str(process))
        status = dict(line.split(':', 1) for line in (folder / 'status').read_text().splitlines())
        memory = int(status['RssAnon'].split()[0]) * 1024
        return cls(epoch, memory, int(status['Threads']), len(list((folder / 'fd').iterdir())))


def train(folder: Path, stop: int | None) -> tuple[list[Use], str]:
    """Trains until the steps of epoch `stop` end; returns what was used when those of each epoch did, and the log."""
    flags = {
        'alphabet_config_path': folder / 'alphabet.txt',
        'train_files': folder / 'corpus' / 'train.csv',
        'dev_files': folder / 'corpus' / 'dev.csv',
        'checkpoint_dir': folder / 'checkpoints',
        'summary_dir': folder / 'curves',
        'train_batch_size': 2,
        'n_hidden': 16,
        'epochs': EPOCHS,
        'plateau_epochs': PLATEAU,
        'plateau_reduction': 0.9,
        'es_min_delta': 1000,  # no epoch but the first is better by so much
        'max_to_keep': 2,
        'summary_steps': 10,
    }
    command = [sys.executable, PROGRAM, '--reduce_lr_on_plateau', '--shuffle_batches', '--noshow_progressbar']
    command += [f'--{name}={value}' for name, value in flags.items()]
    uses, lines = [], []
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=folder) as process:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            ended = re.search(r'Epoch (\d+) \| Training', line)
            if ended:
                uses.append(Use.of(process.pid, int(ended[1])))
                if uses[-1].epoch == stop:
                    process.send_signal(signal.SIGTERM)
    assert process.returncode == (0 if stop is None else 128 + signal.SIGTERM), ''.join(lines)
    return uses, ''.join(lines)


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('long')
    write_alphabet(folder)
    for name, count in (('train', 2 * STEPS), ('dev', 2)):
        write_corpus(folder / 'corpus', name, random_texts(count, seed=count))
    return folder


@pytest.fixture(scope='module')
def runs(folder: Path) -> list[tuple[list[Use], str]]:
    """Of three processes, each of which goes on where the one before was stopped."""
    return [train(folder, stop) for stop in (*STOPS, None)]


def test_nothing_grows(runs: list[tuple[list[Use], str]]) -> None:
    for uses, _ in runs:
        warm = uses[WARM_UP:]
        third = len(warm) // 3
        assert third >= 10
        first, last = warm[:third], warm[-third:]
        # One or two more come and go: those that write a checkpoint, and TensorFlow's for what goes on side by side.
        assert median(use.threads for use in last) <= median(use.threads for use in first) + 2
        assert median(use.files for use in last) <= median(use.files for use in first) + 1
        growth = median(use.memory for use in last) - median(use.memory for use in first)
        assert growth < GROWTH, [use.memory for use in uses]


def test_every_epoch_was_trained_and_the_plateaus_came(runs: list[tuple[list[Use], str]]) -> None:
    assert sorted({use.epoch for uses, _ in runs for use in uses}) == list(range(EPOCHS))
    assert sum(log.count('Plateau: learning rate') for _, log in runs) == (EPOCHS - 1) // PLATEAU


def test_curves_go_on_without_a_gap_or_a_repetition(runs: list[tuple[list[Use], str]], folder: Path) -> None:
    steps = list(range(1, EPOCHS * STEPS + 1))
    ends = steps[STEPS - 1 :: STEPS]
    wanted = {
        ('train', 'step_loss'): steps,
        ('train', 'learning_rate'): steps,
        ('train', 'epoch_loss'): ends,
        ('train', 'epoch'): ends,
        ('train', 'layer_5/weights'): steps[9::10],
        ('dev', 'epoch_loss'): ends,
        ('dev', f'loss/{folder}/corpus/dev.csv'): ends,
    }
    for (part, tag), expected in wanted.items():
        shown = [event.step for event in events(folder / 'curves' / part) for v in event.summary.value if v.tag == tag]
        assert shown == expected, tag


def test_the_folder_has_the_checkpoints_it_should(runs: list[tuple[list[Use], str]], folder: Path) -> None:
    names = {path.stem for path in (folder / 'checkpoints').glob('*.index')}
    best = {name for name in names if name.startswith('best_dev')}
    assert len(best) == 1
    assert names - best == {f'train-{EPOCHS * STEPS - STEPS}', f'train-{EPOCHS * STEPS}'}
    assert not list((folder / 'checkpoints').glob('.writing-*'))
