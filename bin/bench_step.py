#!/usr/bin/env python
"""Times a whole training step for each LSTM implementation, beside a peer: forward, CTC, backward, average, norm, Adam.

Every measurement is a process of its own. The processes take turns for several rounds, so that whatever else the
machine does meets all of them, and what counts is the ratio of the medians.

  bin/bench_step.py
  bin/bench_step.py --shapes 512,16,200 --lstm hoisted,block --peer_python ~/torch/bin/python
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PEER = ROOT / 'bin' / 'bench_peer_torch.py'
N_OUTPUT = 29  # the English alphabet and the blank


def main() -> int:
    args = parse_arguments()
    if args.worker:
        print(json.dumps(measure(args)))
        return 0
    for shape in args.shapes.split(':'):
        compare([int(number) for number in shape.split(',')], args)
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        '--shapes', default='512,16,200:2048,8,150', help='n_hidden,batch,frames; several separated by colons'
    )
    parser.add_argument('--lstm', default='hoisted,block', help='implementations, separated by commas')
    parser.add_argument('--rounds', type=int, default=5, help='how often each takes its turn')
    parser.add_argument('--steps', type=int, default=5, help='measured steps a turn; those of `block` are half as many')
    parser.add_argument('--warmup', type=int, default=2, help='steps before those')
    parser.add_argument('--peer', default=str(PEER), help='a script that takes the same shape; empty: none')
    parser.add_argument('--peer_python', default='', help='the Python of the peer; without, the peer is left out')
    parser.add_argument('--dropout', type=float, default=0.05, help='rate behind layers 1, 2, 3 and 5')
    parser.add_argument('--intra_op_threads', type=int, default=0)
    parser.add_argument('--inter_op_threads', type=int, default=0)
    parser.add_argument('--worker', action='store_true', help=argparse.SUPPRESS)
    for name in ('n_hidden', 'batch', 'frames'):
        parser.add_argument(f'--{name}', type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def compare(shape: list[int], args: argparse.Namespace) -> None:
    """Takes turns and prints the medians; the first implementation is the one the others are compared with."""
    contestants = {name: [sys.executable, __file__, '--worker', '--lstm', name] for name in args.lstm.split(',')}
    for command in contestants.values():
        command += [f'--intra_op_threads={args.intra_op_threads}', f'--inter_op_threads={args.inter_op_threads}']
    if args.peer and args.peer_python:
        contestants['peer'] = [args.peer_python, args.peer]
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in contestants}
    for _ in range(args.rounds):
        for name, command in contestants.items():
            steps = max(1, args.steps // 2) if name == 'block' else args.steps
            results[name].append(run_worker(command, shape, steps, args))
    print(f'\nn_hidden {shape[0]}, batch {shape[1]}, frames {shape[2]}; {args.rounds} rounds in alternation')
    print(f'{"":12}{"median s":>10}{"least s":>10}{"ratio":>8}{"peak MB":>9}{"loss":>10}  version')
    medians = {
        name: statistics.median(second for turn in turns for second in turn['seconds'])
        for name, turns in results.items()
    }
    base = medians[next(iter(medians))]
    for name, turns in results.items():
        least = min(second for turn in turns for second in turn['seconds'])
        peak = max(turn['peak_mb'] for turn in turns)
        last = turns[-1]
        print(
            f'{name:12}{medians[name]:10.3f}{least:10.3f}{medians[name] / base:8.2f}{peak:9.0f}'
            f'{last["loss"]:10.3f}  {last["version"]}',
            flush=True,
        )


def run_worker(command: list[str], shape: list[int], steps: int, args: argparse.Namespace) -> dict[str, Any]:
    """One turn in a process of its own; ends the program with its error output when it fails."""
    named = zip(('n_hidden', 'batch', 'frames'), shape, strict=True)
    options = [f'--{name}={value}' for name, value in named]
    options += [f'--steps={steps}', f'--warmup={args.warmup}', f'--dropout={args.dropout}']
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f'{" ".join(command)} failed:\n{done.stderr}')
    return json.loads(done.stdout.splitlines()[-1])


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Builds the graph that training builds, with a batch that is always there, and times its steps."""
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
    sys.path.insert(0, str(ROOT))
    import tensorflow as tf

    from deepspeech_training.config import Config, ModelConfig, ParallelConfig
    from deepspeech_training.graphs import make_session, make_tower_fn
    from deepspeech_training.parallel.registry import create_strategy
    from deepspeech_training.train import create_optimizer

    tf.compat.v1.disable_v2_behavior()
    rate = args.dropout
    config = Config(
        model=ModelConfig(args.n_hidden, dropout=(rate, rate, rate, 0.0, 0.0, rate), lstm=args.lstm),
        parallel=ParallelConfig(intra_op_threads=args.intra_op_threads, inter_op_threads=args.inter_op_threads),
    )
    strategy = create_strategy(config.parallel)
    batch = constant_batch(args.batch, args.frames, static=args.lstm == 'unrolled')
    tf.compat.v1.set_random_seed(config.random_seed)
    ops = strategy.build(
        lambda: batch,
        make_tower_fn(config, N_OUTPUT, training=True),
        lambda: create_optimizer(tf.Variable(1e-3, trainable=False), config.optimizer),
    )
    with make_session(strategy) as session:
        session.run(tf.compat.v1.global_variables_initializer())
        seconds = []
        for _ in range(args.warmup + args.steps):
            start = time.perf_counter()
            result = strategy.run_step(session, ops)
            seconds.append(time.perf_counter() - start)
    return {
        'seconds': seconds[args.warmup :],
        'loss': result.loss_sum / result.count,
        'peak_mb': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        'version': f'TensorFlow {tf.__version__}',
    }


def constant_batch(rows: int, frames: int, static: bool) -> Any:
    """A `Batch` of `rows` utterances of `frames` frames; of unknown shape in the graph unless `static`."""
    import numpy as np
    import tensorflow as tf

    from deepspeech_training.config import N_INPUT
    from deepspeech_training.data.batch import Batch

    random = np.random.default_rng(0)
    characters = max(1, frames // 6)

    def given(value: Any) -> tf.Tensor:
        array = np.asarray(value)
        shape: list[int | None] = list(array.shape) if static else [None] * array.ndim
        if array.ndim == 3 and not static:
            shape = [None, None, N_INPUT]
        return tf.compat.v1.placeholder_with_default(array, shape)

    return Batch(
        names=given([b'utterance'] * rows),
        features=given(random.normal(size=[rows, frames, N_INPUT]).astype(np.float32)),
        feature_lengths=given(np.full(rows, frames, np.int32)),
        labels=given(random.integers(0, N_OUTPUT - 1, size=[rows, characters], dtype=np.int32)),
        label_lengths=given(np.full(rows, characters, np.int32)),
        weights=given(np.ones(rows, np.float32)),
        indices=given(np.arange(rows, dtype=np.int32)),
        audio_seconds=given(np.full(rows, frames * 0.02, np.float32)),
        wait_seconds=given(np.float32(0)),
        number=given(np.int64(0)),
    )


if __name__ == '__main__':
    sys.exit(main())
