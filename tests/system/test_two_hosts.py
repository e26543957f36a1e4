"""A job on two hosts: network namespaces with addresses of their own, and a disk of their own each.

The real `horovodrun -H node1:1,node2:1` starts it. In place of `ssh` it finds a program that enters the namespace.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.jobs import horovodrun, job_environment, lines_of, needs_horovod, processes_with
from tests.toy import random_texts, write_alphabet, write_corpus

PROGRAM = str(Path(__file__).parents[2] / 'DeepSpeech.py')
MARK = 'JOB_ON_TWO_HOSTS'
HOSTS = {'node1': '10.213.0.1', 'node2': '10.213.0.2'}

pytestmark = needs_horovod

SSH = """#!{python}
# ssh [options] HOST [options] COMMAND: like ssh, leaves the command alone when it is killed itself.
import os, subprocess, sys, threading
def pump(source, sink):
    while data := os.read(source.fileno(), 4096):
        os.write(sink, data)
words, host = sys.argv[1:], ''
while words[0].startswith('-') or not host:
    word = words.pop(0)
    if word in ('-o', '-p', '-i'):
        words.pop(0)
    else:
        host = word
command = [{enter!r}, host, ' '.join(words)]
remote = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
pumps = [threading.Thread(target=pump, args=pair) for pair in ((remote.stdout, 1), (remote.stderr, 2))]
for thread in pumps:
    thread.start()
for thread in pumps:
    thread.join()
sys.exit(remote.wait())
"""

ENTER = """#!/bin/sh
# enter HOST COMMAND: the host's network, names, and disk
exec ip netns exec "{prefix}$1" sh -c '
  mount --bind "{folder}/hosts" /etc/hosts && mount --bind "{folder}/disk_of_$1" "{folder}/disk" && exec sh -c "$2"
' enter "$1" "$2"
"""


def ip(*words: str, check: bool = True) -> str:
    result = subprocess.run(['ip', *words], capture_output=True, text=True, timeout=60, check=False)
    if check and result.returncode:
        raise OSError(f'ip {" ".join(words)}: {result.stderr.strip()}')
    return result.stdout


class TwoHosts:
    """`node1` and `node2`, which have the folder `disk` in common by name only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._prefix = f'deepspeech{os.getpid()}-'
        for name in ('disk', 'bin', *(f'disk_of_{host}' for host in HOSTS)):
            (folder / name).mkdir()
        # As on Debian, each host knows its own name by an address that no other host can reach.
        names = {'localhost': '127.0.0.1', socket.gethostname(): '127.0.1.1', **HOSTS}
        (folder / 'hosts').write_text(''.join(f'{address} {name}\n' for name, address in names.items()))
        enter = folder / 'bin' / 'enter'
        for path, text in (
            (enter, ENTER.format(prefix=self._prefix, folder=folder)),
            (folder / 'bin' / 'ssh', SSH.format(python=sys.executable, enter=str(enter))),
        ):
            path.write_text(text)
            path.chmod(0o755)
        self._enter = str(enter)

    def connect(self) -> None:
        """Raises `OSError` where that is not allowed."""
        names = [f'{self._prefix}{host}' for host in HOSTS]
        for name in names:
            ip('netns', 'add', name)
            ip('-n', name, 'link', 'set', 'lo', 'up')
        ip('link', 'add', 'eth0', 'netns', names[0], 'type', 'veth', 'peer', 'name', 'eth0', 'netns', names[1])
        for name, address in zip(names, HOSTS.values(), strict=True):
            ip('-n', name, 'address', 'add', f'{address}/24', 'dev', 'eth0')
            ip('-n', name, 'link', 'set', 'eth0', 'up')
        subprocess.run([self._enter, 'node1', 'true'], check=True, capture_output=True, timeout=60)

    def disconnect(self) -> None:
        for host in HOSTS:
            for pid in ip('netns', 'pids', f'{self._prefix}{host}', check=False).split():
                os.kill(int(pid), signal.SIGKILL)
            ip('netns', 'delete', f'{self._prefix}{host}', check=False)

    def received(self, host: str) -> int:
        """Bytes that have come to the host over the network."""
        command = [self._enter, host, 'cat /proc/net/dev']
        table = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
        (line,) = [line for line in table.splitlines() if line.strip().startswith('eth0:')]
        return int(line.partition(':')[2].split()[0])

    def disk(self, host: str) -> Path:
        return self.folder / f'disk_of_{host}'

    def steps(self, host: str) -> list[int]:
        """The steps of the last checkpoints on the host's disk."""
        return sorted(int(path.stem.partition('-')[2]) for path in self.disk(host).glob('checkpoints/train-*.index'))

    @contextmanager
    def job(self, command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
        """`command` on each host, started on node1; its output goes to the file `output`."""
        flags = ['--gloo', '--disable-cache', '-np', '2', '-H', 'node1:1,node2:1']
        words = ' '.join(f"'{word}'" for word in [horovodrun(), *flags, *command])
        path = f'{self.folder}/bin:{os.environ["PATH"]}'
        with (
            (self.folder / 'output').open('w') as output,
            subprocess.Popen(
                [self._enter, 'node1', f'exec {words}'],
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=self.folder,
                env=job_environment(
                    {'PATH': path, MARK: str(self.folder), 'XDG_CACHE_HOME': str(self.folder / 'disk')}
                ),
                start_new_session=True,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    @property
    def output(self) -> str:
        return (self.folder / 'output').read_text()


@pytest.fixture(scope='module')
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoHosts]:
    if os.geteuid() or not shutil.which('ip'):
        pytest.skip('network namespaces need the superuser and the program ip (package iproute2)')
    hosts = TwoHosts(tmp_path_factory.mktemp('hosts'))
    try:
        try:
            hosts.connect()
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f'no network namespaces with disks of their own here: {error}')
        write_alphabet(hosts.folder)
        for name, count in (('train', 13), ('test', 5)):
            write_corpus(hosts.folder / 'corpus', name, random_texts(count, seed=count))
        yield hosts
    finally:
        hosts.disconnect()


def program(hosts: TwoHosts, *flags: str) -> list[str]:
    values = {
        'alphabet_config_path': hosts.folder / 'alphabet.txt',
        'checkpoint_dir': hosts.folder / 'disk' / 'checkpoints',
        'summary_dir': hosts.folder / 'disk' / 'curves',
        'train_files': hosts.folder / 'corpus' / 'train.csv',
        'train_batch_size': 2,
        'n_hidden': 24,
        'beam_width': 16,
        'report_count': 0,
        'epochs': 1,
    }
    return [sys.executable, PROGRAM, *(f'--{name}={value}' for name, value in values.items()), *flags]


def train_on_both(hosts: TwoHosts, *flags: str) -> str:
    with hosts.job(program(hosts, '--horovod', '--checkpoint_per_node', *flags)) as process:
        assert process.wait(timeout=300) == 0, hosts.output
    return hosts.output


def weights(folder: Path, step: int) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(folder / f'train-{step}'))
    return {name: reader.get_tensor(name).copy() for name in reader.get_variable_to_shape_map()}


def test_a_job_on_two_hosts_goes_on_from_the_disk_of_either(hosts: TwoHosts) -> None:
    before = hosts.received('node1'), hosts.received('node2')
    first = train_on_both(hosts)
    assert 'rank 0 of 2 on node1: Horovod: 2 processes (1 on node1, 1 on node2)' in first
    assert hosts.steps('node1') == hosts.steps('node2') == [4]
    parameters = sum(value.size for name, value in weights(hosts.disk('node1') / 'checkpoints', 4).items())
    for host, received in zip(HOSTS, before, strict=True):
        # Each of four updates brings at least half of the gradients; the parameters are a third of the checkpoint.
        assert hosts.received(host) - received > 4 * parameters / 3 * 4 / 2
    assert (hosts.disk('node1') / 'curves').exists()
    assert not (hosts.disk('node2') / 'curves').exists()
    for host in HOSTS:
        assert list(hosts.disk(host).glob('checkpoints/checked_audio/*.json.gz')), 'each host checks its own data'

    shutil.rmtree(hosts.disk('node1') / 'checkpoints')
    second = train_on_both(hosts, '--epochs=2', f'--test_files={hosts.folder}/corpus/test.csv')
    assert "I rank 0 of 2 on node1: Another rank's checkpoint is used: " in second
    assert hosts.steps('node1') == [8]
    assert hosts.steps('node2') == [4, 8]
    ours, theirs = (weights(hosts.disk(host) / 'checkpoints', 8) for host in HOSTS)
    assert {name: value.tobytes() for name, value in ours.items()} == {
        name: value.tobytes() for name, value in theirs.items()
    }
    report = f'Test on {hosts.folder}/corpus/test.csv - WER: '
    assert sum(line.startswith(report) for line in lines_of(0, second)) == 1
    assert lines_of(1, second) == []

    alone = program(hosts, '--epochs=2', '--cpu_towers=2', '--learning_rate=0.002', '--summary_dir=alone/curves')
    subprocess.run([*alone, '--checkpoint_dir=alone'], check=True, capture_output=True, timeout=300, cwd=hosts.folder)
    expected = weights(hosts.folder / 'alone', 8)
    for name in expected.keys() - {'learning_rate'}:
        np.testing.assert_allclose(ours[name], expected[name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_ctrl_c_ends_the_ranks_of_both_hosts(hosts: TwoHosts) -> None:
    """The launcher cannot kill those on another host, which end by themselves; each keeps what was learned."""
    for host in HOSTS:
        shutil.rmtree(hosts.disk(host) / 'checkpoints', ignore_errors=True)
        shutil.rmtree(hosts.disk(host) / 'curves', ignore_errors=True)
    header, *rows = (hosts.folder / 'corpus' / 'train.csv').read_text().splitlines()
    (hosts.folder / 'corpus' / 'long.csv').write_text('\n'.join([header, *rows * 2000]) + '\n')
    flags = ('--horovod', '--checkpoint_per_node', f'--train_files={hosts.folder}/corpus/long.csv')
    with hosts.job(program(hosts, *flags)) as process:
        deadline = time.monotonic() + 240
        while not any(path.stat().st_size > 10_000 for path in hosts.disk('node1').glob('curves/train/*')):
            assert process.poll() is None, hosts.output
            assert time.monotonic() < deadline, hosts.output
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) != 0
        deadline = time.monotonic() + 60
        while processes_with(MARK, str(hosts.folder)):
            assert time.monotonic() < deadline, 'a rank goes on'
            time.sleep(0.2)
    for host in HOSTS:
        (step,) = hosts.steps(host)
        assert step > 0
