"""How a process learns that it is one rank of a job, and what each rank checks of its flags."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from deepspeech_training.config import CheckpointConfig, Config, DataConfig, ExportConfig, ParallelConfig, ReportConfig
from deepspeech_training.errors import CheckpointError, FlagError
from deepspeech_training.launch import Launch, find_launch
from deepspeech_training.start_checks import check_launch, check_paths
from deepspeech_training.validation import validate

ROOT = Path(__file__).resolve().parent.parent
HERE = socket.gethostname()


@pytest.mark.parametrize(
    ('environment', 'expected'),
    [
        ({}, Launch(host=HERE)),
        (
            {'HOROVOD_RANK': '3', 'HOROVOD_SIZE': '8', 'HOROVOD_LOCAL_RANK': '1', 'HOROVOD_HOSTNAME': 'node2'},
            Launch(3, 8, 1, 'node2', 'HOROVOD_SIZE'),
        ),
        (
            {'HOROVOD_RANK': '1', 'HOROVOD_SIZE': '2', 'HOROVOD_LOCAL_RANK': '1', 'HOROVOD_HOSTNAME': 'localhost'},
            Launch(1, 2, 1, HERE, 'HOROVOD_SIZE'),
        ),
        (
            {'OMPI_COMM_WORLD_RANK': '5', 'OMPI_COMM_WORLD_SIZE': '6', 'OMPI_COMM_WORLD_LOCAL_RANK': '2'},
            Launch(5, 6, 2, HERE, 'OMPI_COMM_WORLD_SIZE'),
        ),
        ({'PMI_RANK': '0', 'PMI_SIZE': '4'}, Launch(0, 4, 0, HERE, 'PMI_SIZE')),
        (
            {'SLURM_PROCID': '2', 'SLURM_STEP_NUM_TASKS': '4', 'SLURM_LOCALID': '2'},
            Launch(2, 4, 2, HERE, 'SLURM_STEP_NUM_TASKS'),
        ),
        # A batch script of Slurm is no task of a step, however many tasks the job may start.
        ({'SLURM_PROCID': '0', 'SLURM_NTASKS': '4'}, Launch(host=HERE)),
        # horovodrun inside of a step of Slurm
        (
            {'SLURM_PROCID': '0', 'SLURM_STEP_NUM_TASKS': '1', 'HOROVOD_RANK': '1', 'HOROVOD_SIZE': '2'},
            Launch(1, 2, 0, HERE, 'HOROVOD_SIZE'),
        ),
        ({'HOROVOD_RANK': 'x', 'HOROVOD_SIZE': '2'}, Launch(host=HERE)),
    ],
)
def test_launchers_tell_rank_and_size(environment: dict[str, str], expected: Launch) -> None:
    assert find_launch(environment) == expected


def test_each_line_of_a_rank_says_whose_it_is() -> None:
    environment = {**os.environ, 'HOROVOD_RANK': '1', 'HOROVOD_SIZE': '2', 'HOROVOD_HOSTNAME': 'node2'}
    result = subprocess.run(
        [sys.executable, ROOT / 'DeepSpeech.py', '--epochs=x', '--train_file=a'],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 2
    lines = result.stderr.splitlines()
    assert len(lines) == 2
    assert all(line.startswith('E rank 1 of 2 on node2: --') for line in lines)


def test_several_processes_without_horovod_are_refused(tmp_path: Path) -> None:
    (tmp_path / 'alphabet.txt').write_text('a\n')
    for rank in '01':
        result = subprocess.run(
            [sys.executable, ROOT / 'DeepSpeech.py', '--train_files=a.csv', '--checkpoint_dir=c'],
            env={**os.environ, 'OMPI_COMM_WORLD_RANK': rank, 'OMPI_COMM_WORLD_SIZE': '2'},
            capture_output=True,
            text=True,
            timeout=120,
            cwd=tmp_path,
        )
        assert result.returncode == 2
        assert f'E rank {rank} of 2 on {HERE}: 2 processes were started (OMPI_COMM_WORLD_SIZE=2)' in result.stderr
        assert 'give --horovod, or start one process only' in result.stderr
    assert sorted(os.listdir(tmp_path)) == ['alphabet.txt']


def test_horovod_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = Config(parallel=ParallelConfig(horovod=True))
    monkeypatch.setattr(sys, 'path', [str(tmp_path)])
    monkeypatch.delitem(sys.modules, 'horovod', raising=False)
    with pytest.raises(FlagError, match=r'^--horovod: .*not installed here; bin/install_horovod\.sh'):
        check_launch(config, Launch())
    (tmp_path / 'horovod').mkdir()
    (tmp_path / 'horovod' / '__init__.py').touch()
    check_launch(config, Launch())
    check_launch(config, Launch(1, 2))
    check_launch(Config(), Launch())


@pytest.mark.parametrize('strategy', ['sync', 'async'])
def test_only_hybrid_goes_with_horovod(strategy: str) -> None:
    data = DataConfig(train_files=('a.csv',))
    with pytest.raises(FlagError, match=f'^--parallel={strategy}: does not fit --horovod'):
        validate(Config(data=data, parallel=ParallelConfig(horovod=True, parallel=strategy)))
    validate(Config(data=data, parallel=ParallelConfig(horovod=True)))


@pytest.fixture
def run(tmp_path: Path) -> Config:
    """A training whose folders cannot be written."""
    (tmp_path / 'alphabet.txt').write_text('a\n')
    (tmp_path / 'file').write_text('no folder')
    below = str(tmp_path / 'file' / 'below')
    return Config(
        data=DataConfig(
            train_files=('a.csv',), test_files=('b.csv',), alphabet_config_path=str(tmp_path / 'alphabet.txt')
        ),
        checkpoints=CheckpointConfig(load_dir=below, save_dir=below),
        report=ReportConfig(summary_dir=below, test_output_file=f'{below}/report.json'),
        export=ExportConfig(export_dir=below),
    )


def flags_refused(config: Config, launch: Launch) -> list[str]:
    with pytest.raises(FlagError) as caught:
        check_paths(config, launch)
    return [line.partition('=')[0] for line in str(caught.value).splitlines()]


def test_each_rank_checks_the_folders_that_it_writes(run: Config) -> None:
    everything = ['--checkpoint_dir', '--summary_dir', '--export_dir', '--test_output_file']
    assert flags_refused(run, Launch()) == everything
    assert flags_refused(run, Launch(0, 4)) == everything
    check_paths(run, Launch(1, 4, 1))
    check_paths(run, Launch(2, 4, 0))
    per_node = replace(run, parallel=ParallelConfig(horovod=True, checkpoint_per_node=True))
    assert flags_refused(per_node, Launch(2, 4, 0)) == ['--checkpoint_dir']
    check_paths(per_node, Launch(3, 4, 1))


def test_the_first_rank_misses_the_checkpoint_unless_each_host_has_its_own(run: Config, tmp_path: Path) -> None:
    testing = Config(data=replace(run.data, train_files=()), checkpoints=CheckpointConfig(load_dir=str(tmp_path)))
    with pytest.raises(CheckpointError, match='has no checkpoint'):
        check_paths(testing, Launch(0, 2))
    check_paths(testing, Launch(1, 2))
    per_node = replace(testing, parallel=ParallelConfig(horovod=True, checkpoint_per_node=True))
    check_paths(per_node, Launch(0, 2))
    with pytest.raises(CheckpointError, match='has no checkpoint'):
        check_paths(per_node, Launch())


def test_ranks_that_check_one_folder_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Each would make the missing folders and remove them again, at any time."""
    (tmp_path / 'alphabet.txt').write_text('a\n')
    config = Config(
        data=DataConfig(train_files=('a.csv',), alphabet_config_path=str(tmp_path / 'alphabet.txt')),
        checkpoints=CheckpointConfig(save_dir=str(tmp_path / 'runs' / 'a' / 'b')),
    )
    refused: list[Exception] = []

    def check() -> None:
        for _ in range(200):
            try:
                check_paths(config)
            except FlagError as error:
                refused.append(error)

    threads = [threading.Thread(target=check) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == []
    assert os.listdir(tmp_path) == ['alphabet.txt']


ORPHAN = """
import signal, sys, time
from deepspeech_training import launch
if sys.argv[1] == 'patient':
    signal.signal(signal.SIGTERM, lambda *_: print('told', flush=True))
launch.end_with_launcher(seconds=1)
print('started', flush=True)
time.sleep(120)
"""


@pytest.mark.parametrize(('kind', 'status', 'output'), [('', -signal.SIGTERM, b''), ('patient', 143, b'told\n')])
def test_a_rank_ends_when_its_launcher_is_gone(kind: str, status: int, output: bytes) -> None:
    """Over ssh nothing else tells it: it is not killed, and may be waiting for other ranks that are alone too.

    A training has some time to write a checkpoint.
    """
    read, write = os.pipe()
    with subprocess.Popen(
        [sys.executable, '-c', ORPHAN, kind],
        stdout=subprocess.PIPE,
        stderr=write,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
    ) as process:
        os.close(write)
        assert process.stdout is not None
        assert process.stdout.readline() == b'started\n'
        assert process.poll() is None
        os.close(read)
        assert process.communicate(timeout=30)[0] == output
        assert process.returncode == status
