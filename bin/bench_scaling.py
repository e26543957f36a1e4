#!/usr/bin/env python
"""Measures how training scales: 1 to N towers in one process, and 1 to N processes that Horovod connects.

    python bin/bench_scaling.py --n_hidden 512 --batch 16 --frames 200 --towers 2 --ranks 2
    python bin/bench_scaling.py --n_hidden 2048 --batch 32 --gpus 8,32,128 --network_gbits 100 --latency_us 20

Every process trains on noise that is made for the purpose and read by the real input pipeline, one batch a tower. The
contestants take turns, each turn is a process of its own (or several), and what counts is the ratio of medians. Without
GPUs all share the cores of this machine, so that a perfect ratio is 1 and not N; then one tower with a batch that is N
times as large, which does the same work, takes part too.

At the end comes a projection: how fast a job on more GPUs would be, each with a process like `1 tower` here.
doc/distributed.md has its formula.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import soundfile

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench_input import positive  # noqa: E402 - found through the line above, as what follows
from scaling_bench.projection import Network, Projection, project  # noqa: E402
from scaling_bench.report import Results, print_projection, print_results  # noqa: E402
from scaling_bench.turns import Contestant, Task, Turn, take_turn  # noqa: E402

from deepspeech_training.config import LSTM_IMPLEMENTATIONS, FeatureConfig  # noqa: E402
from deepspeech_training.programs import exit_status  # noqa: E402

UTTERANCES = 64
"""So many are made; they are read again and again."""

FRAMES_A_CHARACTER = 6


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--n_hidden', type=positive, default=512, help='width of the model (default %(default)s)')
    parser.add_argument('--batch', type=positive, default=16, help='utterances a tower (default %(default)s)')
    parser.add_argument('--frames', type=positive, default=200, help='of each utterance (default %(default)s: 4 s)')
    parser.add_argument('--lstm', default='auto', choices=LSTM_IMPLEMENTATIONS, help='(default %(default)s)')
    parser.add_argument('--towers', type=positive, default=2, help='1 to so many (default %(default)s)')
    parser.add_argument(
        '--ranks', type=not_negative, default=2, help='1 to so many processes of Horovod; 0: none (default %(default)s)'
    )
    parser.add_argument('--steps', type=positive, default=10, help='measured steps a turn (default %(default)s)')
    parser.add_argument('--warmup', type=positive, default=3, help='steps before those (default %(default)s)')
    parser.add_argument('--repeats', type=positive, default=5, help='turns of each (default %(default)s)')
    parser.add_argument(
        '--gpus', type=counts, default=[1, 2, 4, 8, 16, 32, 64], help='numbers of GPUs, for the projection'
    )
    parser.add_argument(
        '--network_gbits', type=above_zero, default=10.0, help='10^9 bits a second (default %(default)s)'
    )
    parser.add_argument('--latency_us', type=at_least_zero, default=50.0, help='of a message (default %(default)s)')
    parser.add_argument(
        '--overlap', type=share, default=0.0, help='share of averaging beside the backward pass (default %(default)s)'
    )
    parser.add_argument('--json', default='', metavar='FILE', help='writes all figures to this file too')
    return parser.parse_args(arguments)


def not_negative(text: str) -> int:
    return positive(text) if int(text) else 0


def counts(text: str) -> list[int]:
    return [positive(part) for part in text.split(',')]


def above_zero(text: str) -> float:
    if not 0 < float(text) < float('inf'):
        raise argparse.ArgumentTypeError(f'{text} is not above 0')
    return float(text)


def at_least_zero(text: str) -> float:
    return above_zero(text) if float(text) else 0.0


def share(text: str) -> float:
    if not 0 <= float(text) <= 1:
        raise argparse.ArgumentTypeError(f'{text} is not from 0 to 1')
    return float(text)


def write_corpus(folder: Path, frames: int) -> str:
    """Utterances of `frames` frames of noise, which all take the same time to compute; returns their CSV file."""
    random, features = np.random.default_rng(0), FeatureConfig()
    length = features.window_samples + (frames - 1) * features.step_samples
    lines = ['wav_filename,wav_filesize,transcript']
    for number in range(UTTERANCES):
        path = folder / f'{number}.wav'
        soundfile.write(path, random.normal(0, 0.1, length), features.sample_rate, subtype='PCM_16')
        letters = random.choice(list('abcdefghijklmnopqrstuvwxyz'), max(1, frames // FRAMES_A_CHARACTER))
        lines.append(f'{path.name},{path.stat().st_size},{"".join(letters)}')
    csv = folder / 'noise.csv'
    csv.write_text('\n'.join(lines) + '\n')
    return str(csv)


def choose_contestants(task: Task, towers: int, ranks: int, *, wide: bool) -> list[Contestant]:
    """The first is the one the others are compared with; `wide`: also one tower with the batch of several."""
    found = [Contestant(named(count, 'tower'), replace(task, towers=count)) for count in range(1, towers + 1)]
    if wide:
        for count in range(2, max(towers, ranks) + 1):
            batch = count * task.batch
            found.append(Contestant(f'1 tower, batch {batch}', replace(task, batch=batch)))
    for count in range(1, ranks + 1):
        found.append(Contestant(named(count, 'rank'), replace(task, horovod=True), ranks=count))
    return found


def named(count: int, what: str) -> str:
    return f'{count} {what}{"s" if count > 1 else ""}'


def measure(options: argparse.Namespace) -> None:
    ranks = options.ranks
    if ranks and importlib.util.find_spec('horovod') is None:
        print(f'Horovod is not installed for {sys.executable}: bin/install_horovod.sh builds it. Towers only.')
        ranks = 0
    with tempfile.TemporaryDirectory() as folder:
        csv = write_corpus(Path(folder), options.frames)
        task = Task(csv, options.n_hidden, options.batch, options.steps, options.warmup, options.lstm)
        first = take_turn(Contestant(named(1, 'tower'), task))
        contestants = choose_contestants(task, options.towers, ranks, wide=first.device == 'CPU')
        turns: dict[str, list[Turn]] = {each.name: [] for each in contestants}
        for repeat in range(options.repeats):
            for each in contestants:
                is_first = not repeat and each is contestants[0]
                turns[each.name].append(first if is_first else take_turn(each))
    results = [Results(each, turns[each.name]) for each in contestants]
    print_results(results, options.frames)
    network = Network(options.network_gbits, options.latency_us)
    process = results[0].as_process()
    projections = [project(process, gpus, network, options.overlap) for gpus in options.gpus]
    print_projection(process, network, options.overlap, projections)
    if options.json:
        write_json(options, results, projections)


def write_json(options: argparse.Namespace, results: Sequence[Results], projections: Sequence[Projection]) -> None:
    content = {
        'options': vars(options),
        'results': [result.as_json() for result in results],
        'projections': [asdict(projection) for projection in projections],
    }
    Path(options.json).write_text(json.dumps(content, indent=2) + '\n')


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    return exit_status(lambda: measure(options))


if __name__ == '__main__':
    sys.exit(main())
