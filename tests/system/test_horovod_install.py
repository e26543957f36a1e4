"""Horovod as `bin/install_horovod.sh` builds it: two real processes that reduce, gather and broadcast over Gloo."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSTALLER = ROOT / 'bin' / 'install_horovod.sh'

needs_horovod = pytest.mark.skipif(
    importlib.util.find_spec('horovod') is None, reason='Horovod is not installed: bin/install_horovod.sh builds it'
)

PROGRAM = """
import sys
import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

tf.compat.v1.disable_v2_behavior()
hvd.init()
rank = hvd.rank()
own = tf.constant([1.0 + rank, 10.0 * rank, -2.0], tf.float32)
weights = tf.compat.v1.get_variable('weights', initializer=own, use_resource=True)
optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(1.0))
with tf.compat.v1.Session() as session:
    session.run(tf.compat.v1.global_variables_initializer())
    session.run(hvd.broadcast_global_variables(0))
    assert session.run(weights).tolist() == [1.0, 0.0, -2.0], 'broadcast'
    assert session.run(hvd.allreduce(own, op=hvd.Average)).tolist() == [1.5, 5.0, -2.0], 'average'
    assert session.run(hvd.allreduce(own, op=hvd.Sum)).tolist() == [3.0, 10.0, -4.0], 'sum'
    # The first rank has one row, the second two.
    rows = tf.fill([rank + 1, 2], rank)
    assert session.run(hvd.allgather(rows)).tolist() == [[0, 0], [1, 1], [1, 1]], 'allgather'
    loss = tf.reduce_sum(own * weights)  # its gradient is `own`, of which the two ranks' mean is applied
    train = optimizer.minimize(loss, var_list=[weights])
    session.run(tf.compat.v1.global_variables_initializer())
    session.run(hvd.broadcast_global_variables(0))
    session.run(train)
    assert session.run(weights).tolist() == [-0.5, -5.0, 0.0], 'DistributedOptimizer'
print(f'rank {rank} of {hvd.size()} done, local {hvd.local_rank()} of {hvd.local_size()}', flush=True)
"""


def horovodrun() -> str:
    """The `horovodrun` of this Python."""
    found = shutil.which('horovodrun', path=f'{Path(sys.executable).parent}{os.pathsep}{os.environ.get("PATH", "")}')
    assert found, 'horovod can be imported, but there is no horovodrun'
    return found


def install(*arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ['bash', str(INSTALLER), *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )


@needs_horovod
def test_two_processes_reduce_gather_and_broadcast(tmp_path: Path) -> None:
    program = tmp_path / 'program.py'
    program.write_text(PROGRAM, encoding='utf-8')
    result = subprocess.run(
        [horovodrun(), '--gloo', '-np', '2', sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '3'},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    done = re.findall(r'rank (\d) of 2 done, local (\d) of 2', result.stdout)
    assert sorted(done) == [('0', '0'), ('1', '1')]


@needs_horovod
def test_what_is_installed_is_not_built_again() -> None:
    start = time.monotonic()
    result = install('--python', sys.executable)
    assert result.returncode == 0, result.stderr
    assert re.search(
        r'Horovod 0\.28\.1 for tensorflow\S+ is installed|that works with this TensorFlow is installed', result.stderr
    )
    assert time.monotonic() - start < 30


def test_a_python_without_tensorflow_is_told_what_to_install(tmp_path: Path) -> None:
    venv.create(tmp_path / 'bare', with_pip=False, symlinks=True)
    result = install('--python', str(tmp_path / 'bare' / 'bin' / 'python'))
    assert result.returncode == 2
    assert "has no TensorFlow. Install it first: pip install -e '.[cpu]'" in result.stderr


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (('--python', '/no/such/python'), "no Python at '/no/such/python'"),
        (('--python',), '--python needs the path of a Python'),
        (('--pyton', 'x'), "unknown argument '--pyton'"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...], message: str) -> None:
    result = install(*arguments)
    assert result.returncode == 2
    assert message in result.stderr


def test_help() -> None:
    result = install('--help')
    assert result.returncode == 0
    assert 'bin/install_horovod.sh [--python PYTHON] [--rebuild]' in result.stdout
    assert 'HOROVOD_BUILD_JOBS' in result.stdout
