"""Writes checkpoints without end in a process that is killed at random moments; what is left must be whole.

A program of its own, since it forks: TensorFlow is loaded once for all of the processes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time

import numpy as np

from deepspeech_training.checkpoints.folder import (
    LAST,
    TEMPORARY,
    Found,
    commit,
    named_checkpoints,
    read_state,
    remove_leftovers,
    what_is_wrong,
)
from deepspeech_training.checkpoints.tensors import read_tensors, write_tensors

NUMBERS = 300_000  # 1.2 MB: written in some milliseconds, as is everything around it


def write_forever(folder: str, step: int) -> None:
    while True:
        step += 1
        values = {'weights': np.full(NUMBERS, step, np.float32)}
        commit(folder, LAST, step, lambda prefix: write_tensors(prefix, values), {'run': {'run': 'a', 'step': step}}, 3)  # noqa: B023


def newest_whole(folder: str) -> Found | None:
    return next((found for found in named_checkpoints(folder, LAST) if not what_is_wrong(found)), None)


def main(folder: str, kills: int, seed: int) -> None:
    random.seed(seed)
    step, interrupted, fallbacks = 0, 0, 0
    for _ in range(kills):
        child = os.fork()
        if not child:
            write_forever(folder, step)
        time.sleep(random.uniform(0.05, 0.4))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found = newest_whole(folder)
        if found is None:
            assert step == 0, 'nothing whole is left'
            continue
        fallbacks += found != named_checkpoints(folder, LAST)[0]
        assert found.step >= step, f'step {found.step} after {step}'
        step = found.step
        state = read_state(found)
        assert state is not None
        assert state['run']['step'] == step
        weights = read_tensors(found.path, ['weights'])['weights']
        assert weights.shape == (NUMBERS,)
        assert (weights == step).all()
        interrupted += bool(remove_leftovers(folder))
        left = os.listdir(folder)
        assert not [name for name in left if name.startswith(TEMPORARY)], left
        assert len([name for name in left if name.endswith('.index')]) <= 3, left
    print(json.dumps({'kills': kills, 'interrupted': interrupted, 'fallbacks': fallbacks, 'step': step}))


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
