"""Batches that really do not fit into memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.toy import LETTER_SECONDS, write_alphabet, write_corpus

ROOT = Path(__file__).resolve().parents[2]
LETTERS = 1200
ROWS = 64


@pytest.fixture(scope='module')
def flags(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Many short utterances and one that is so long that padding the others to it takes gigabytes."""
    folder = tmp_path_factory.mktemp('corpus')
    table = Path(write_corpus(folder, 'train', ['abc', 'a' * LETTERS]))
    header, short, long = table.read_text().splitlines()
    table.write_text('\n'.join([header, *[short] * (ROWS + ROWS - 1), long]) + '\n')
    return [
        f'--train_files={table}',
        f'--alphabet_config_path={write_alphabet(folder)}',
        '--audio_sample_rate=8000',
        '--n_hidden=256',
        f'--train_batch_size={ROWS}',
        '--epochs=1',
        '--noshow_progressbar',
        '--inter_op_parallelism_threads=1',
        '--intra_op_parallelism_threads=1',
    ]


def run(folder: Path, flags: list[str], megabytes: int = 700) -> tuple[int, list[str]]:
    # oneDNN ends the program when it finds no memory; glibc takes address space for each thread.
    environment = os.environ | {'TF_ENABLE_ONEDNN_OPTS': '0', 'MALLOC_ARENA_MAX': '1', 'TF_CPP_MIN_LOG_LEVEL': '3'}
    command = [sys.executable, '-m', 'tests.system.little_memory', str(megabytes), *flags]
    command += [f'--checkpoint_dir={folder}/checkpoints', f'--summary_dir={folder}/summaries']
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False, timeout=300)
    assert 'Traceback' not in done.stderr
    return done.returncode, done.stderr.splitlines()


def assert_told(lines: list[str], flag: str, count: int = ROWS) -> None:
    seconds = LETTERS * LETTER_SECONDS
    frames = 1 + int((seconds * 1000 - 32) // 20)
    assert re.fullmatch(
        rf'E out of memory with a batch of {count} utterances, {count * frames} frames when padded to the longest, '
        rf'\S*/train_1\.wav with {frames} frames \(144\.0 s\)\. Lower {flag} or --n_hidden, or leave out the longest '
        r'utterances\. TensorFlow says: .*alloc.*',
        lines[-1],
    ), lines[-1]


def test_the_probe_finds_out_before_the_first_step(tmp_path: Path, flags: list[str]) -> None:
    status, lines = run(tmp_path, [*flags, '--probe_longest'])
    assert status == 2, lines
    assert_told(lines, '--train_batch_size')
    assert not (tmp_path / 'checkpoints' / 'checkpoint').exists()


def test_without_it_the_step_says_which_batch_it_was(tmp_path: Path, flags: list[str]) -> None:
    status, lines = run(tmp_path, [*flags, '--checkpoint_steps=1'])
    assert status == 2, lines
    assert_told(lines, '--train_batch_size')
    assert (tmp_path / 'checkpoints' / 'train-1.index').exists()  # of the step with the short ones


def test_what_the_flags_for_batches_are_for(tmp_path: Path, flags: list[str]) -> None:
    """The same data in the same memory, with batches of so many frames."""
    status, lines = run(tmp_path, [*flags, '--probe_longest', '--train_batch_frames=8000', '--bucket_batches'])
    assert status == 0, lines
    assert any('--probe_longest: the largest batch (1 utterance, ' in line for line in lines)
    assert any(' | 128 samples ' in line and line.endswith(' | padding 0.0%') for line in lines)
