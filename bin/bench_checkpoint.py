#!/usr/bin/env python
"""Times what a checkpoint costs a training: how long saving holds it up, and how long the writing beside it takes.

In each round: steps without a checkpoint, then one is saved, then steps until it is on the disk. The steps are those of
training, with a small batch, so that many of them fall into the time of writing.

  bin/bench_checkpoint.py
  bin/bench_checkpoint.py --n_hidden 512 --rounds 10 --folder /mnt/other-disk
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Round:
    """Seconds of one checkpoint.

    `copied`: what copying as much memory takes, for comparison. `held`: until saving returns. `first`: the step
    after that. `written`: until all of it is on the disk.
    `during`: how many steps were made meanwhile, the first one too, and `slowed` by how much longer they took.
    """

    copied: float
    held: float
    first: float
    written: float
    during: int
    slowed: float


def main() -> int:
    args = parse_arguments()
    with tempfile.TemporaryDirectory(dir=args.folder or None) as folder:
        size, steps, rounds = measure(args, folder)
    print(report(args.n_hidden, size, steps, rounds))
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--n_hidden', type=int, default=2048)
    parser.add_argument('--batch', type=int, default=1)
    parser.add_argument('--frames', type=int, default=20)
    parser.add_argument('--rounds', type=int, default=5, help='how many checkpoints')
    parser.add_argument('--steps', type=int, default=5, help='steps without a checkpoint before each')
    parser.add_argument('--folder', default='', help='where to write; by default the system folder for temporary files')
    return parser.parse_args()


def measure(args: argparse.Namespace, folder: str) -> tuple[int, list[float], list[Round]]:
    """Bytes of a checkpoint, seconds of each step without one, and the rounds."""
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
    sys.path.insert(0, str(ROOT))
    import numpy as np
    import tensorflow as tf
    from bench_step import N_OUTPUT, constant_batch

    from deepspeech_training.checkpoints import CheckpointStore, Geometry, RunState
    from deepspeech_training.config import CheckpointConfig, Config, ModelConfig
    from deepspeech_training.graphs import make_session, make_tower_fn
    from deepspeech_training.parallel.registry import create_strategy
    from deepspeech_training.train import create_optimizer

    tf.compat.v1.disable_v2_behavior()
    config = Config(model=ModelConfig(args.n_hidden))
    strategy = create_strategy(config.parallel)
    with tf.Graph().as_default():
        batch = constant_batch(args.batch, args.frames, static=False)
        ops = strategy.build(
            lambda: batch,
            make_tower_fn(config, N_OUTPUT, training=True),
            lambda: create_optimizer(tf.Variable(1e-5, trainable=False), config.optimizer),
        )
        checkpoints = CheckpointConfig(load_dir=folder, save_dir=folder, max_to_keep=1)
        store = CheckpointStore(checkpoints, Geometry(args.n_hidden, N_OUTPUT - 1, 'alphabet.txt'))
        with make_session(strategy) as session:
            store.initialize(session)
            numbers = iter(range(1, args.rounds + 2))

            def save() -> None:
                store.save_last(session, RunState(run='bench', step=next(numbers)))

            def step() -> float:
                start = time.perf_counter()
                strategy.run_step(session, ops)
                return time.perf_counter() - start

            likeness = [np.ones(v.shape, np.float32) for v in tf.compat.v1.global_variables()]

            def copy() -> float:
                start = time.perf_counter()
                copies = [array.copy() for array in likeness]
                seconds = time.perf_counter() - start
                del copies
                return seconds

            one_round(step, save, store.wait, copy(), usual=0.0)  # what is slow for the first time only
            steps: list[float] = []
            rounds: list[Round] = []
            for _ in range(args.rounds):
                steps += [step() for _ in range(args.steps)]
                rounds.append(one_round(step, save, store.wait, copy(), statistics.median(steps[-args.steps :])))
    size = sum(path.stat().st_size for path in Path(folder).glob('train-*.data-*'))
    return size, steps, rounds


def one_round(
    step: Callable[[], float], save: Callable[[], None], wait: Callable[[], None], copied: float, usual: float
) -> Round:
    """Saves, and makes steps until that is written; `usual`: seconds of a step without."""
    start = time.perf_counter()
    save()
    held = time.perf_counter() - start
    written: list[float] = []

    def watch() -> None:
        wait()
        written.append(time.perf_counter() - start)

    watcher = threading.Thread(target=watch)
    watcher.start()
    during = [step()]
    while watcher.is_alive():
        during.append(step())
    watcher.join()
    return Round(copied, held, during[0], written[0], len(during), sum(during) - usual * len(during))


def report(n_hidden: int, size: int, steps: list[float], rounds: list[Round]) -> str:
    """Medians of the rounds."""

    def middle(value: Callable[[Round], float]) -> float:
        return statistics.median(value(each) for each in rounds)

    usual = statistics.median(steps)
    rows = [
        ('step without a checkpoint', f'{usual:.3f} s'),
        ('copying as much memory', f'{middle(lambda r: r.copied):.3f} s'),
        ('held until saving returns', f'{middle(lambda r: r.held):.3f} s'),
        ('first step after that', f'{middle(lambda r: r.first):.3f} s'),
        ('checkpoint on the disk after', f'{middle(lambda r: r.written):.3f} s'),
        ('steps until then', f'{middle(lambda r: r.during):.0f}'),
        ('these took longer by, in all', f'{middle(lambda r: r.slowed):.3f} s'),
        ('held, of the whole writing', f'{100 * middle(lambda r: r.held / r.written):.1f}%'),
    ]
    head = f'n_hidden {n_hidden}, {size / 1e6:.0f} MB a checkpoint; medians of {len(rounds)}'
    return '\n'.join([head, *(f'  {name:30}{value:>12}' for name, value in rows)])


if __name__ == '__main__':
    sys.exit(main())
