"""The threads of a rank, counted in a process of its own: the first session of a process decides for all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.jobs import needs_horovod

ROOT = Path(__file__).resolve().parents[2]

COUNT_THREADS = """
import tensorflow as tf
tf.compat.v1.disable_v2_behavior()
from pathlib import Path
from deepspeech_training.config import ParallelConfig
from deepspeech_training.graphs import make_session
from deepspeech_training.parallel.registry import create_strategy
strategy = create_strategy(ParallelConfig(horovod=True, inter_op_threads=3, intra_op_threads=1))
with make_session(strategy) as session:
    session.run(tf.random.uniform([]) + 1)
    names = [path.read_text().strip() for path in Path('/proc/self/task').glob('*/comm')]
print(names.count('tf_Compute'))
"""


@needs_horovod
def test_a_rank_has_the_threads_that_were_asked_for() -> None:
    result = subprocess.run(
        [sys.executable, '-c', COUNT_THREADS], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == '3'
