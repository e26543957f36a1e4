"""`DeepSpeech.py --horovod` in real jobs of two processes: the same as one process, and what ends a job."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import scalars
from tests.jobs import job_command, job_environment, lines_of, needs_horovod, processes_with, run_alone, run_job
from tests.toy import random_texts, write_alphabet, write_corpus

PROGRAM = str(Path(__file__).parents[2] / 'DeepSpeech.py')
SECONDS_TO_END = 60
MARK = 'CHECKPOINTS_OF_THIS_JOB'

pytestmark = needs_horovod


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('horovod')
    write_alphabet(folder)
    for name, count in (('train', 13), ('dev', 5), ('test', 5)):
        write_corpus(folder / 'corpus', name, random_texts(count, seed=count))
    return folder


def program(folder: Path, checkpoints: str, *flags: str) -> list[str]:
    """A training of two samples a batch; later flags count."""
    values = {
        'alphabet_config_path': folder / 'alphabet.txt',
        'checkpoint_dir': folder / checkpoints,
        'summary_dir': folder / f'{checkpoints}-curves',
        'train_files': folder / 'corpus' / 'train.csv',
        'train_batch_size': 2,
        'n_hidden': 24,
        'beam_width': 16,
    }
    return [sys.executable, PROGRAM, *(f'--{name}={value}' for name, value in values.items()), *flags]


def long_epoch(folder: Path) -> tuple[str, ...]:
    """Flags of a training whose first epoch does not end while a test waits."""
    header, *rows = (folder / 'corpus' / 'train.csv').read_text().splitlines()
    (folder / 'corpus' / 'long.csv').write_text('\n'.join([header, *rows * 2000]) + '\n')
    return (f'--train_files={folder}/corpus/long.csv', '--summary_steps=1')


def job(folder: Path, checkpoints: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return run_job(2, program(folder, checkpoints, '--horovod', *flags), folder=folder, environment=homes(folder))


def alone(folder: Path, checkpoints: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """One process with two towers and the learning rate of two ranks."""
    command = program(folder, checkpoints, '--cpu_towers=2', '--learning_rate=0.002', *flags)
    result = run_alone(command, folder=folder, environment=homes(folder))
    assert result.returncode == 0, result.stderr
    return result


def homes(folder: Path) -> dict[str, str]:
    return {'XDG_DATA_HOME': str(folder / 'share'), 'XDG_CACHE_HOME': str(folder / 'cache')}


def weights(path: Path) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(path))
    return {name: reader.get_tensor(name).copy() for name in reader.get_variable_to_shape_map()}


def assert_same_weights(ours: Path, theirs: Path) -> None:
    """The learning rate is that of one process in both: the factor for the ranks is not in it."""
    own, others = weights(ours), weights(theirs)
    assert own.keys() == others.keys()
    assert 2 * own.pop('learning_rate') == pytest.approx(others.pop('learning_rate'))
    for name, value in own.items():
        np.testing.assert_allclose(value, others[name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_two_ranks_do_what_two_towers_do(folder: Path) -> None:
    """Training, dropout and augmentation included, validation, test, report, export and transcription."""
    corpus = folder / 'corpus'
    flags = [
        '--epochs=2',
        f'--dev_files={corpus}/dev.csv',
        f'--metrics_files={corpus}/test.csv',
        f'--test_files={corpus}/test.csv,{corpus}/dev.csv',
        f'--one_shot_infer={corpus}/test_0.wav',
        '--shuffle_batches',
        '--shuffle_start=0',
        '--augment=volume[p=0.7,dbfs=-10:-40]',
        '--augment=frequency_mask[p=0.7,n=1:3,size=4]',
        '--augment=add[domain=features,stddev=0:0.5]',
        '--dev_wer_every=1',
        '--best_by=wer',
    ]
    result = job(folder, 'two', *flags, '--test_output_file=two.json', '--export_dir=model')
    assert result.returncode == 0, result.stderr
    other = alone(folder, 'one', *flags, '--test_output_file=one.json')

    assert_same_weights(folder / 'two' / 'train-8', folder / 'one' / 'train-8')
    assert_same_weights(folder / 'two' / 'best_dev-8', folder / 'one' / 'best_dev-8')
    for name in ('train', 'dev', 'metrics'):
        assert len(list((folder / 'two-curves' / name).iterdir())) == 1, 'who writes curves besides rank 0?'
    for tag in ('epoch_loss', 'step_loss', 'learning_rate', 'gradient_norm'):
        theirs = scalars(folder / 'one-curves' / 'train', tag)
        assert scalars(folder / 'two-curves' / 'train', tag) == pytest.approx(theirs, rel=1e-4)
    curves = [scalars(folder / f'{name}-curves' / 'dev', 'epoch_wer') for name in ('two', 'one')]
    assert len(curves[0]) == 2
    assert curves[0] == curves[1]
    report, expected = (json.loads((folder / name).read_text()) for name in ('two.json', 'one.json'))
    assert [(row['wav_filename'], row['res']) for row in report] == [
        (row['wav_filename'], row['res']) for row in expected
    ]
    assert [row['loss'] for row in report] == pytest.approx([row['loss'] for row in expected], rel=1e-4)
    assert lines_of(0, result.stdout) == other.stdout.splitlines()
    assert lines_of(1, result.stdout) == []
    assert (folder / 'model' / 'output_graph.pb').exists()
    assert all(': ' in line and line[2:].startswith('rank 0 of 2 on ') for line in lines_of(0, result.stderr))
    assert lines_of(1, result.stderr) == []

    # Every epoch counts as one without improvement: the best model comes back twice, then training stops.
    changes = ['--epochs=9', '--es_min_delta=1000', '--early_stop', '--es_epochs=3', '--reduce_lr_on_plateau']
    changes += ['--plateau_epochs=1', '--accumulate_steps=2', '--grad_clip_norm=1', '--lr_schedule=cosine']
    result = job(folder, 'two', *flags[:2], *changes)
    assert result.returncode == 0, result.stderr
    alone(folder, 'one', *flags[:2], *changes)
    names = sorted(path.name for path in (folder / 'two').glob('*.index'))
    assert names == sorted(path.name for path in (folder / 'one').glob('*.index'))
    (last,) = [
        path for path in (folder / 'one').glob('train-*.index') if path.stat().st_mtime == newest(folder / 'one')
    ]
    assert_same_weights(folder / 'two' / last.stem, folder / 'one' / last.stem)
    assert weights(folder / 'two' / last.stem)['learning_rate'] == pytest.approx(0.001 * 0.1**3)
    assert sum('Plateau: ' in line for line in lines_of(0, result.stderr)) == 3
    assert any('Early stop' in line for line in lines_of(0, result.stderr))


def newest(folder: Path) -> float:
    return max(path.stat().st_mtime for path in folder.glob('train-*.index'))


A_SIGNAL_TO_ONE_RANK = """
import os, signal, sys
from deepspeech_training import cli, epochs

class Loop(epochs.TrainingLoop):
    def _after_training_step(self, *arguments):
        if os.environ['HOROVOD_RANK'] == '1' and self._state.step == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            while self._interrupts.stop is None:
                pass
        super()._after_training_step(*arguments)

epochs.TrainingLoop = Loop
sys.exit(cli.main(sys.argv[1:]))
"""


def test_the_loss_of_an_epoch_that_was_interrupted_is_that_of_all_ranks(folder: Path) -> None:
    """Of the samples before the stop too, of which each rank has seen a part."""
    flags = ('--epochs=1', '--intra_op_parallelism_threads=1', '--inter_op_parallelism_threads=1')
    assert job(folder, 'whole', *flags).returncode == 0

    command = program(folder, 'stopped', '--horovod', *flags)
    command[1:2] = ['-c', A_SIGNAL_TO_ONE_RANK]
    stopped = run_job(2, command, folder=folder, environment={**homes(folder), 'PYTHONPATH': str(Path(PROGRAM).parent)})
    assert stopped.returncode != 0
    assert any('Interrupted in epoch 0 at step 2' in line for line in lines_of(0, stopped.stderr)), stopped.stderr
    resumed = job(folder, 'stopped', *flags)
    assert resumed.returncode == 0, resumed.stderr
    assert any('8 samples of the next one' in line for line in lines_of(0, resumed.stderr))

    states = [state_of(folder / name / 'train-4') for name in ('stopped', 'whole')]
    for name in ('epoch', 'step', 'train_loss'):
        assert states[0][name] == states[1][name]
    for tag in ('epoch_loss', 'step_loss'):
        curves = [scalars(folder / f'{name}-curves' / 'train', tag) for name in ('stopped', 'whole')]
        assert curves[0] == curves[1]
    printed = f'Epoch 0 | Training | loss {states[1]["train_loss"]:.4f} |'
    assert any(printed in line for line in lines_of(0, resumed.stderr))


def state_of(checkpoint: Path) -> dict[str, Any]:
    """Where the run was."""
    state: dict[str, Any] = json.loads(Path(f'{checkpoint}.json').read_text(encoding='utf-8'))['run']
    return state


def test_losses_that_are_never_finite_end_every_rank(folder: Path) -> None:
    result = job(folder, 'diverged', '--learning_rate=1e30', '--max_bad_steps=5', '--epochs=20')
    assert result.returncode != 0
    errors = [line for rank in range(2) for line in lines_of(rank, result.stderr) if line.startswith('E ')]
    assert any(line.startswith('E rank 0 of 2') and 'not finite for 5 steps in a row' in line for line in errors)
    assert re.search(r'^Process \d exit with status code 3', result.stdout, re.MULTILINE)
    assert 'deepspeech_training/' not in result.stderr, 'a traceback'


ONE_RANK_DIFFERS = """
import os, sys
from deepspeech_training import cli
sys.exit(cli.main(sys.argv[1:] + (['--train_batch_size=3'] if os.environ['HOROVOD_RANK'] == '1' else [])))
"""


def test_ranks_with_different_flags_do_not_start(folder: Path) -> None:
    command = program(folder, 'differ', '--horovod', '--epochs=1')
    command[1:2] = ['-c', ONE_RANK_DIFFERS]
    result = run_job(2, command, folder=folder, environment={**homes(folder), 'PYTHONPATH': str(Path(PROGRAM).parent)})
    assert result.returncode != 0
    assert any('data.train_batch_size: 2 on rank 0; 3 on rank 1' in line for line in lines_of(0, result.stderr))
    assert not list((folder / 'differ').glob('*.index'))


def test_a_wrong_flag_ends_the_job(folder: Path) -> None:
    started = time.monotonic()
    result = job(folder, 'wrong', '--epochs=x')
    assert result.returncode != 0
    assert re.search(r'^\[\d\]<stderr>:E rank \d of 2 on \S+: --epochs=x: must be', result.stderr, re.MULTILINE)
    assert time.monotonic() - started < SECONDS_TO_END


class Running:
    """A job under way; the environment of its processes names its folder of checkpoints as `MARK`."""

    def __init__(self, process: subprocess.Popen[str], log: Path, mark: str) -> None:
        self.process = process
        self._log = log
        self._mark = mark

    def rank(self, number: int) -> int:
        """The process number of a rank."""
        everyone = processes_with(MARK, self._mark)
        (found,) = [pid for pid, variables in everyone.items() if variables.get('HOROVOD_RANK') == str(number)]
        return found

    def end(self) -> str:
        """Waits for the job, which fails and leaves no process behind; returns all output."""
        assert self.process.wait(timeout=SECONDS_TO_END) != 0
        deadline = time.monotonic() + 10
        while left := processes_with(MARK, self._mark):
            assert time.monotonic() < deadline, left
            time.sleep(0.1)
        return self._log.read_text()


@contextmanager
def running(folder: Path, checkpoints: str, command: Sequence[str]) -> Iterator[Running]:
    """A job that trains; `command` must write curves of each step."""
    log = folder / f'{checkpoints}.log'
    mark = str(folder / checkpoints)
    with (
        log.open('w') as output,
        subprocess.Popen(
            job_command(2, command),
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=job_environment({**homes(folder), MARK: mark}),
            start_new_session=True,
        ) as process,
    ):
        try:
            deadline = time.monotonic() + 240
            curves = folder / f'{checkpoints}-curves' / 'train'
            while not any(path.stat().st_size > 10_000 for path in curves.glob('*')):
                assert time.monotonic() < deadline, log.read_text()
                assert process.poll() is None, log.read_text()
                time.sleep(0.2)
            yield Running(process, log, mark)
        finally:
            process.kill()  # horovodrun's helpers end the ranks then


def last_step(folder: Path, checkpoints: str) -> int:
    """The newest checkpoint's step; it is one within the first epoch."""
    return max(int(path.stem.partition('-')[2]) for path in (folder / checkpoints).glob('train-*.index'))


def test_a_rank_that_is_killed_ends_the_job(folder: Path) -> None:
    """Rank 0 keeps what was learned."""
    with running(folder, 'killed', program(folder, 'killed', '--horovod', *long_epoch(folder))) as job:
        os.kill(job.rank(1), signal.SIGKILL)
        output = job.end()
    assert 'W rank 0 of 2' in output
    assert "another rank ended; its message, or the launcher's, says why" in output
    assert 'Process 1 exit with status code 137' in output
    assert 'deepspeech_training/' not in output, 'a traceback'
    step = last_step(folder, 'killed')
    assert step > 0
    state = state_of(folder / 'killed' / f'train-{step}')
    assert state['count'] == state['rows_done'] == 4 * step  # of both ranks


def test_ctrl_c_ends_every_rank_and_keeps_what_was_learned(folder: Path) -> None:
    with running(folder, 'interrupted', program(folder, 'interrupted', '--horovod', *long_epoch(folder))) as job:
        job.process.send_signal(signal.SIGINT)
        output = job.end()
    assert 'deepspeech_training/' not in output, 'a traceback'
    assert last_step(folder, 'interrupted') > 0


def test_an_audio_file_that_vanishes_ends_the_job(folder: Path) -> None:
    """The rank that misses it says so, by name."""
    texts = random_texts(13, seed=13)
    csv = write_corpus(folder / 'vanishing', 'train', texts)
    flags = ['--horovod', f'--train_files={csv}', '--epochs=100000', '--summary_steps=1']
    with running(folder, 'vanished', program(folder, 'vanished', *flags)) as job:
        (folder / 'vanishing' / 'train_3.wav').unlink()
        output = job.end()
    named = re.search(r'E rank (\d) of 2 on \S+: .*train_3\.wav', output)
    assert named
    assert f'E rank {1 - int(named[1])} of 2' in output
    assert 'deepspeech_training/' not in output, 'a traceback'


A_BUG_IN_ONE_RANK = """
import os, sys, time
from deepspeech_training import cli, epochs

class Loop(epochs.TrainingLoop):
    def _after_training_step(self, *arguments):
        super()._after_training_step(*arguments)
        if os.environ['HOROVOD_RANK'] == '1' and self._state.step > 60:
            raise ZeroDivisionError('a bug')

epochs.TrainingLoop = Loop
sys.exit(cli.main(sys.argv[1:]))
"""


def test_a_bug_in_one_rank_ends_the_job_with_its_traceback(folder: Path) -> None:
    command = program(folder, 'bug', '--horovod', *long_epoch(folder))
    command[1:2] = ['-c', A_BUG_IN_ONE_RANK]
    started = time.monotonic()
    result = run_job(2, command, folder=folder, environment={**homes(folder), 'PYTHONPATH': str(Path(PROGRAM).parent)})
    assert result.returncode != 0
    told = lines_of(1, result.stderr)
    assert any(re.match(r'E rank 1 of 2 on \S+: ended by ZeroDivisionError: a bug', line) for line in told)
    said = [line for line in told if line != 'Terminated']  # by the shell, where the rank takes long to end
    assert said[-1] == 'ZeroDivisionError: a bug'
    assert any(line.startswith('E rank 0 of 2') and 'another rank ended' in line for line in lines_of(0, result.stderr))
    assert time.monotonic() - started < 120
