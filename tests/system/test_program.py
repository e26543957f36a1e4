"""`python DeepSpeech.py` in a process of its own: from CSV files to a transcript, and what ends it early."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers import events, scalars
from tests.toy import random_texts, write_alphabet, write_corpus, write_tones

PROGRAM = str(Path(__file__).parents[2] / 'DeepSpeech.py')


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('program')
    write_alphabet(folder)
    for name, count in (('train', 12), ('more', 3), ('dev', 4), ('test', 3)):
        write_corpus(folder / 'corpus', name, random_texts(count, seed=count))
    return folder


def command(folder: Path, checkpoints: str, *flags: str) -> list[str]:
    common = {
        'alphabet_config_path': folder / 'alphabet.txt',
        'checkpoint_dir': folder / checkpoints,
        'n_hidden': 24,
        'beam_width': 16,
    }
    return [sys.executable, PROGRAM, *(f'--{name}={value}' for name, value in common.items()), *flags]


def training(folder: Path, checkpoints: str, *flags: str) -> list[str]:
    corpus = folder / 'corpus'
    return command(
        folder,
        checkpoints,
        f'--train_files={corpus}/train.csv,{corpus}/more.csv',
        f'--summary_dir={folder / checkpoints}-curves',
        '--train_batch_size=2',
        *flags,
    )


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, 'XDG_DATA_HOME': str(folder / 'share'), 'XDG_CACHE_HOME': str(folder / 'cache')}


def run(folder: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, capture_output=True, text=True, timeout=600, cwd=folder, env=environment(folder), check=False
    )


def test_from_csv_files_to_a_transcript(folder: Path) -> None:
    corpus = folder / 'corpus'
    whole = run(
        folder,
        training(
            folder,
            'whole',
            f'--dev_files={corpus}/dev.csv',
            f'--test_files={corpus}/test.csv',
            f'--test_output_file={folder}/reports/test.json',
            f'--export_dir={folder}/export',
            f'--one_shot_infer={corpus}/test_0.wav',
            '--cpu_towers=2',
            '--epochs=40',
            '--learning_rate=0.005',
        ),
    )
    assert whole.returncode == 0, whole.stderr
    assert 'Traceback' not in whole.stderr
    report = json.loads((folder / 'reports' / 'test.json').read_text(encoding='utf-8'))
    assert sorted(row['src'] for row in report) == sorted(random_texts(3, seed=3))
    (heard,) = [row['res'] for row in report if row['wav_filename'].endswith('test_0.wav')]
    assert heard
    assert whole.stdout.splitlines()[-1] == heard
    assert (folder / 'export' / 'output_graph.pb').stat().st_size > 10_000

    one_shot = run(folder, command(folder, 'whole', f'--one_shot_infer={corpus}/test_0.wav'))
    assert (one_shot.returncode, one_shot.stdout) == (0, f'{heard}\n'), one_shot.stderr


def test_a_run_goes_on_where_the_last_one_ended(folder: Path) -> None:
    for epochs, steps in ((1, 8), (2, 16)):
        result = run(folder, training(folder, 'resumed', f'--epochs={epochs}'))
        assert result.returncode == 0, result.stderr
        assert (folder / 'resumed' / f'train-{steps}.index').exists()
    assert 'Continuing from checkpoint' in result.stderr

    other = run(folder, training(folder, 'resumed', '--epochs=1', '--n_hidden=32'))
    assert other.returncode == 2
    assert 'n_hidden 24, but --n_hidden is 32' in other.stderr
    assert 'Traceback' not in other.stderr
    assert (folder / 'resumed' / 'train-16.index').exists()


def test_bad_samples_are_named_or_skipped(folder: Path) -> None:
    corpus = folder / 'corpus'
    write_tones(corpus / 'short.wav', 'a')
    (corpus / 'noise.wav').write_bytes(b'no audio at all')
    rows = ['short.wav,3884,abcabcabcabc', 'noise.wav,15,ab', 'train_0.wav,9000,xyz', 'gone.wav,1,a']
    good = (corpus / 'train.csv').read_text().splitlines()
    (corpus / 'bad.csv').write_text('\n'.join([*good, *rows]) + '\n')
    flags = [f'--train_files={corpus}/bad.csv', '--epochs=1']

    refused = run(folder, training(folder, 'bad', *flags))
    assert refused.returncode == 2
    for told in ('short.wav', 'noise.wav', 'gone.wav', 'U+0078', 'bad.csv:14'):
        assert told in refused.stderr
    assert 'Traceback' not in refused.stderr
    assert not list((folder / 'bad').glob('train-*'))

    skipped = run(folder, training(folder, 'bad', *flags, '--on_bad_sample=skip'))
    assert skipped.returncode == 0, skipped.stderr
    assert (folder / 'bad' / 'train-6.index').exists()
    listed = (folder / 'bad' / 'skipped_samples.csv').read_text()
    assert all(name in listed for name in ('short.wav', 'noise.wav', 'gone.wav', 'train_0.wav'))


def test_a_loss_that_is_never_finite_ends_with_status_3(folder: Path) -> None:
    assert run(folder, training(folder, 'diverged', '--epochs=1')).returncode == 0
    flags = ('--learning_rate=1e30', '--force_initialize_learning_rate', '--max_bad_steps=5', '--epochs=20')
    result = run(folder, training(folder, 'diverged', *flags))
    assert result.returncode == 3, result.stderr
    assert 'Traceback' not in result.stderr
    assert 'max_bad_steps' in result.stderr
    assert [path.name for path in (folder / 'diverged').glob('*.index')] == ['train-8.index']


@pytest.mark.parametrize('flags', [(), ('--parallel=async', '--cpu_towers=2')], ids=['hybrid', 'async'])
def test_ctrl_c_keeps_what_was_learned(folder: Path, flags: tuple[str, ...]) -> None:
    name = f'interrupted-{len(flags)}'
    with subprocess.Popen(
        training(folder, name, '--epochs=100000', '--test_files', str(folder / 'corpus' / 'test.csv'), *flags),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(folder),
        start_new_session=True,
    ) as process:
        curves = folder / f'{name}-curves' / 'train'
        deadline = time.monotonic() + 300
        while not any(path.stat().st_size > 1000 for path in curves.glob('*')):
            assert time.monotonic() < deadline, 'no step within five minutes'
            assert process.poll() is None, process.stderr
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert 'Traceback' not in err
    assert out == '', 'testing followed an interrupted training'
    assert list((folder / name).glob('train-*.index'))
    with pytest.raises(ProcessLookupError):  # nothing that it started is left
        os.killpg(process.pid, 0)
    resumed = run(folder, training(folder, name, '--epochs=1', *flags))
    assert resumed.returncode == 0, resumed.stderr
    assert 'Continuing from checkpoint' in resumed.stderr


def test_asynchronous_towers_learn_and_show_their_staleness(folder: Path) -> None:
    flags = ('--parallel=async', '--cpu_towers=2', '--epochs=40', '--learning_rate=0.005', '--summary_steps=10')
    result = run(folder, training(folder, 'async', f'--dev_files={folder}/corpus/dev.csv', *flags))
    assert result.returncode == 0, result.stderr
    assert 'Traceback' not in result.stderr
    lines = [line for line in result.stderr.splitlines() if '| Training | loss' in line]
    assert len(lines) == 40
    assert all(re.search(r'15 samples in .* \| staleness \d\.\d mean, \d max$', line) for line in lines)
    curves = folder / 'async-curves' / 'train'
    losses = list(scalars(curves, 'epoch_loss').values())
    assert losses[-1] < losses[0] / 4
    staleness = scalars(curves, 'staleness')
    assert list(staleness) == list(range(1, 40 * 8 + 1))
    assert max(staleness.values()) > 0, 'the towers did not race'
    assert (folder / 'async' / 'train-320.index').exists()
    histograms = {event.step for event in events(curves) for value in event.summary.value if value.HasField('histo')}
    assert 28 <= len(histograms) <= 32  # each tenth step, or one that begins soon after
