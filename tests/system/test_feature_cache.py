"""`--feature_cache` in jobs, after kills, and where it cannot be written: the same results as without it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.jobs import job_environment, lines_of, needs_horovod, run_alone, run_job
from tests.toy import write_alphabet, write_corpus

PROGRAM = str(Path(__file__).parents[2] / 'DeepSpeech.py')
TEXTS = [first + second + third for first in 'abc' for second in 'abc' for third in ('', 'a', 'b')]  # all different


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('cached')
    write_alphabet(folder)
    for name, texts in (('train', TEXTS[:13]), ('dev', TEXTS[13:18]), ('test', TEXTS[18:22])):
        write_corpus(folder / 'corpus', name, texts)
    time.sleep(3.1)  # files that were written just now are not remembered
    return folder


def program(name: str, *flags: str) -> list[str]:
    """A training with dropout and shuffling, and a test, on one thread; later flags count."""
    values = {
        'alphabet_config_path': 'alphabet.txt',
        'checkpoint_dir': name,
        'summary_dir': f'{name}-curves',
        'train_files': 'corpus/train.csv',
        'dev_files': 'corpus/dev.csv',
        'test_files': 'corpus/test.csv',
        'test_output_file': f'{name}.json',
        'train_batch_size': 2,
        'n_hidden': 16,
        'beam_width': 8,
        'epochs': 2,
        'inter_op_parallelism_threads': 1,
        'intra_op_parallelism_threads': 1,
    }
    return [
        sys.executable,
        PROGRAM,
        '--shuffle_batches',
        *(f'--{key}={value}' for key, value in values.items()),
        *flags,
    ]


def homes(folder: Path) -> dict[str, str]:
    return {'XDG_DATA_HOME': str(folder / 'share'), 'XDG_CACHE_HOME': str(folder / 'caches')}


def run(folder: Path, name: str, *flags: str) -> str:
    """Runs to the end; returns what was said."""
    done = run_alone(program(name, *flags), folder=folder, environment=homes(folder))
    assert done.returncode == 0, done.stderr
    return done.stderr


def job(folder: Path, name: str, *flags: str) -> str:
    done = run_job(2, program(name, '--horovod', *flags), folder=folder, environment=homes(folder))
    assert done.returncode == 0, done.stderr
    return done.stderr


def result(folder: Path, name: str) -> tuple[dict[str, bytes], object]:
    """All variables of the last checkpoint, and the report of the test."""
    path = tf.train.latest_checkpoint(str(folder / name))
    reader = tf.train.load_checkpoint(path)
    values = {key: np.asarray(reader.get_tensor(key)).tobytes() for key in reader.get_variable_to_shape_map()}
    return values, json.loads((folder / f'{name}.json').read_text())


def utterances(said: str) -> list[int]:
    """How many the cache had, each time that it was opened."""
    return [int(count) for count in re.findall(r'has (\d+) utterances of these settings', said)]


@needs_horovod
@pytest.mark.slow
def test_ranks_share_it(folder: Path) -> None:
    job(folder, 'job-without')
    for number, counts in enumerate(([0, 18], [22, 22])):
        said = job(folder, f'job-{number}', '--feature_cache=cache-of-ranks')
        assert utterances('\n'.join(lines_of(0, said))) == counts
        assert result(folder, f'job-{number}') == result(folder, 'job-without')
    assert len(list(folder.glob('cache-of-ranks/*/*.features'))) <= 4  # of two ranks, in training and in the test


@pytest.mark.slow
def test_killed_and_resumed_runs_end_alike(folder: Path) -> None:
    """SIGKILL in the middle of filling the cache, twice; then the same command to the end."""
    for number in range(2):
        running = subprocess.Popen(
            program('killed', '--feature_cache=cache-killed', '--checkpoint_steps=1'),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            env=job_environment(homes(folder)),
        )
        wanted = 6 * (number + 1) * 64  # bytes of the index
        while running.poll() is None and indexed(folder / 'cache-killed') < wanted:
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
        running.wait()
    run(folder, 'killed', '--feature_cache=cache-killed', '--checkpoint_steps=1')
    run(folder, 'without')
    assert result(folder, 'killed') == result(folder, 'without')
    assert len(list(folder.glob('cache-killed/*/*.features'))) <= 2


def indexed(cache: Path) -> int:
    return sum(path.stat().st_size for path in cache.glob('*/*.index'))


@pytest.mark.parametrize('where', ['alphabet.txt', 'alphabet.txt/cache'])
def test_a_folder_that_cannot_be_is_an_error_at_the_start(folder: Path, where: str) -> None:
    done = subprocess.run(
        program('never', f'--feature_cache={where}'), capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 2
    assert f'--feature_cache={where}: cannot be written: ' in done.stderr
    assert not (folder / 'never').exists()


def test_a_full_disk_is_a_warning(folder: Path, small_disk: Path) -> None:
    (small_disk / 'other').write_bytes(bytes(1024 * 1024 - 8192))
    said = run(folder, 'full', f'--feature_cache={small_disk}/cache', '--epochs=1')
    warned = [line for line in said.splitlines() if line.startswith('W ')]
    assert f'W --feature_cache={small_disk}/cache: cannot be written: No space left on device. What is' in warned[0]
    assert said.index('cannot be written') < said.index('Epoch 0')
