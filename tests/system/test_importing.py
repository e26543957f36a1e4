"""Importers as programs: killed and started again, interrupted, and what they made is trained on."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import soundfile

from deepspeech_training.importing.conversion import FILES_A_TASK
from deepspeech_training.importing.sources import LOCK
from tests.corpora import CORPORA, digits, sound, text
from tests.jobs import processes_with, run_alone

ROOT = Path(__file__).parents[2]
COUNT = 400
MARK = 'IMPORT_OF_THIS_TEST'


@pytest.fixture(scope='module')
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings that take a second or two to convert."""
    folder = tmp_path_factory.mktemp('source')
    first = sound(folder / '000.flac', 1, 4.0, 48000)
    for number in range(COUNT):
        path = folder / f'{number:03}.flac'
        if number:
            path.write_bytes(first.read_bytes())
        text(path.with_suffix('.txt'), f'number {"abcdefghij"[number % 10]}')
    return folder


def command(source: Path, folder: Path) -> list[str]:
    arguments = [str(folder), '--archive', str(source), '--processes', '2']
    return [sys.executable, str(ROOT / 'bin' / 'import_folder.py'), *arguments]


def start(source: Path, folder: Path) -> subprocess.Popen[str]:
    """Starts an import; returns when it has converted some."""
    environment = {**os.environ, MARK: str(folder)}
    process = subprocess.Popen(command(source, folder), stderr=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 60
    while len(list((folder / 'converted').glob('*.wav'))) < 20:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def check_whole(folder: Path) -> None:
    with (folder / 'train.csv').open(newline='') as file:
        assert len(list(csv.DictReader(file))) > COUNT / 2
    files = list((folder / 'converted').iterdir())
    assert len(files) == COUNT  # nothing is left of the killed one's
    assert {(soundfile.info(path).frames, path.stat().st_size) for path in files} == {(64000, 128044)}


@pytest.mark.slow
def test_killed_and_started_again(source: Path, tmp_path: Path) -> None:
    process = start(source, tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while processes_with(MARK, str(tmp_path)):  # its helpers end, too
        assert time.monotonic() < deadline
        time.sleep(0.05)
    there = {path: path.stat().st_ino for path in (tmp_path / 'converted').glob('[0-9]*.wav')}
    assert 20 <= len(there) < COUNT
    assert not (tmp_path / 'train.csv').exists()
    done = run_alone(command(source, tmp_path))
    assert done.returncode == 0, done.stderr
    assert f'{len(there)} of {COUNT} audio files were there from an earlier import' in done.stderr
    assert {path: path.stat().st_ino for path in there} == there
    check_whole(tmp_path)


@pytest.mark.slow
def test_interrupted_and_started_again(source: Path, tmp_path: Path) -> None:
    process = start(source, tmp_path)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told.splitlines()[-1] == 'E Interrupted; the same command goes on'
    assert 'Traceback' not in told
    assert not processes_with(MARK, str(tmp_path))
    done = run_alone(command(source, tmp_path))
    assert done.returncode == 0, done.stderr
    assert re.search(r'I \d+ of 400 audio files were there', done.stderr)
    check_whole(tmp_path)


def test_a_process_that_dies_costs_what_it_had(source: Path, tmp_path: Path) -> None:
    process = start(source, tmp_path)
    helpers = [
        number
        for number in processes_with(MARK, str(tmp_path))
        if b'spawn_main' in Path(f'/proc/{number}/cmdline').read_bytes()
    ]
    os.kill(helpers[0], signal.SIGKILL)
    process.communicate(timeout=120)
    assert process.returncode == 0
    with (tmp_path / 'rejected.csv').open(newline='') as file:
        reasons = [row['reason'] for row in csv.DictReader(file)]
    assert len(reasons) <= FILES_A_TASK
    assert {reason.partition(';')[0] for reason in reasons} <= {
        'the audio cannot be used: a working process was killed by signal 9'
    }
    assert run_alone(command(source, tmp_path)).returncode == 0
    check_whole(tmp_path)


def test_two_at_a_time_are_refused(source: Path, tmp_path: Path) -> None:
    process = start(source, tmp_path)
    second = run_alone(command(source, tmp_path))
    assert second.returncode == 2
    assert second.stderr == f'E {tmp_path}: another import is writing to this folder; wait for it to end\n'
    assert (tmp_path / LOCK).exists()
    process.communicate(timeout=120)
    assert process.returncode == 0
    check_whole(tmp_path)


@pytest.mark.slow
def test_without_a_network(tmp_path: Path) -> None:
    environment = {'https_proxy': 'http://127.0.0.1:9', 'http_proxy': 'http://127.0.0.1:9', 'no_proxy': ''}
    program = str(ROOT / 'bin' / 'import_ldc93s1.py')
    done = run_alone([sys.executable, program, str(tmp_path / 'new')], environment=environment)
    assert done.returncode == 2
    assert 'Traceback' not in done.stderr
    assert (
        'E https://catalog.ldc.upenn.edu/desc/addenda/LDC93S1.wav: cannot be downloaded: Connection refused'
        in done.stderr
    )
    assert 'https://catalog.ldc.upenn.edu/LDC93S1' in done.stderr
    assert '--archive' in done.stderr


@pytest.mark.parametrize('script', sorted({corpus.script for corpus in CORPORA.values()} | {'import_librivox'}))
def test_help_is_told(script: str) -> None:
    done = run_alone([sys.executable, str(ROOT / 'bin' / f'{script}.py'), '--help'])
    assert done.returncode == 0
    assert re.search(
        r'--archive(, --source)? PATH \[PATH \.\.\.\]', done.stdout
    )  # from Python 3.13 on, both names first
    assert '%(' not in done.stdout


@pytest.mark.slow
def test_an_import_is_trained_on(tmp_path: Path) -> None:
    archives = digits(tmp_path)
    folder = tmp_path / 'digits'
    importer = [sys.executable, str(ROOT / 'bin' / 'import_fsdd.py'), str(folder), '--archive', *map(str, archives)]
    assert run_alone([*importer, '--sample_rate', '8000']).returncode == 0
    alphabet = folder / 'alphabet.txt'
    maker = [sys.executable, str(ROOT / 'bin' / 'make_alphabet.py'), str(folder / 'train.csv'), str(folder / 'dev.csv')]
    assert run_alone([*maker, '--output', str(alphabet)]).returncode == 0
    done = run_alone(
        [
            *(sys.executable, str(ROOT / 'DeepSpeech.py'), f'--train_files={folder}/train.csv'),
            *(f'--dev_files={folder}/dev.csv', f'--alphabet_config_path={alphabet}', '--audio_sample_rate=8000'),
            *('--n_hidden=16', '--epochs=1', f'--checkpoint_dir={tmp_path}/model', f'--summary_dir={tmp_path}/curves'),
        ]
    )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / 'model').glob('best_dev-*'))
