"""Two processes fill one feature cache at once and are killed at random moments; what is found must be right.
At the end they run side by side without being killed.

A program of its own, since it forks.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from deepspeech_training.data.feature_cache import FRAME_BYTES, ROW, FeatureCache
from deepspeech_training.data.journal import HEADER_SIZE

WRITERS = 2
FRAMES = 400


def key(number: int) -> bytes:
    return number.to_bytes(4, 'little') * 8


def mfccs_of(number: int) -> np.ndarray:
    return np.full([FRAMES + number % 7, 26], number, np.float32)


def fill(folder: str, utterances: int) -> None:
    cache = FeatureCache(folder, {'some': 'settings'})
    for number in range(utterances):  # all writers the same, as runs on the same data
        if cache.find_content(key(number)) is None:
            cache.store(key(number), mfccs_of(number), number)


def start(folder: str, utterances: int) -> int:
    """A process that fills the cache; returns its number."""
    child = os.fork()
    if not child:
        fill(folder, utterances)
        os._exit(0)
    return child


def check(folder: str) -> int:
    """How many utterances are there; all of them must be right."""
    cache = FeatureCache(folder, {'some': 'settings'})
    count = 0
    while (found := cache.find_content(key(count))) is not None:
        assert found.samples == count
        assert np.array_equal(found.mfccs, mfccs_of(count))
        count += 1
    return count


def torn_bytes(index: Path) -> int:
    """Bytes of features that no row of the index tells of: a kill came between the two, or in the middle of one."""
    if index.stat().st_size < HEADER_SIZE:
        return 0
    rows = np.fromfile(index, np.uint8)[HEADER_SIZE:]
    frames = rows[: len(rows) // ROW.itemsize * ROW.itemsize].view(ROW)['frames'].sum()
    data = index.with_suffix('.features')
    return data.stat().st_size - int(frames) * FRAME_BYTES if data.exists() else 0


def main(folder: str, kills: int, seed: int) -> None:
    random.seed(seed)
    count, torn, lost = 0, 0, 0
    for _ in range(kills):
        children = [start(folder, 100_000) for _ in range(WRITERS)]
        time.sleep(random.uniform(0.03, 0.15))
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        found = check(folder)
        assert found >= count, f'{found} after {count}: something was lost'
        count = found
        before, lost = lost, sum(torn_bytes(path) for path in Path(folder).glob('*/*.index'))
        torn += lost > before
    for child in [start(folder, count + 100) for _ in range(WRITERS)]:
        assert os.waitpid(child, 0)[1] == 0
    assert check(folder) == count + 100
    files = len(list(Path(folder).glob('*/*.features')))
    print(json.dumps({'kills': kills, 'utterances': count, 'torn': torn, 'files': files}))


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
