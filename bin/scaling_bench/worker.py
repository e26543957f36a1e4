"""One process that trains for some steps, as the program does, and writes down where their time went.

    python worker.py TASK FOLDER

TASK is a `Task` as JSON; the results go to FOLDER/RANK.json.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

BIN = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(BIN), str(BIN.parent)]

from bench_input import read_samples, set_up_tensorflow  # noqa: E402 - found through the line above

from deepspeech_training.config import Config, DataConfig, ModelConfig, ParallelConfig  # noqa: E402
from deepspeech_training.errors import FlagError, UserError  # noqa: E402
from deepspeech_training.text.alphabet import Alphabet  # noqa: E402
from scaling_bench.turns import Task  # noqa: E402

if TYPE_CHECKING:
    from deepspeech_training.parallel.strategy import StepResult, Strategy

ALPHABET = BIN.parent / 'data' / 'alphabet.txt'


def main(arguments: list[str]) -> int:
    task = Task(**json.loads(arguments[0]))
    set_up_tensorflow()
    try:
        rank, measured = measure(task)
    except UserError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    (Path(arguments[1]) / f'{rank}.json').write_text(json.dumps(measured))
    return 0


def measure(task: Task) -> tuple[int, dict[str, Any]]:
    """This process's rank, and its steps: a list of `seconds`, `towers`, `averaging` and `input`."""
    import numpy as np
    import tensorflow as tf

    from deepspeech_training.data.batches import equal_sizes
    from deepspeech_training.graphs import make_session
    from deepspeech_training.train import build_graph

    config = Config(
        data=DataConfig(train_batch_size=task.batch, alphabet_config_path=str(ALPHABET)),
        model=ModelConfig(task.n_hidden, lstm=task.lstm),
        parallel=ParallelConfig(horovod=task.horovod),
    )
    samples = read_samples([task.csv], None)
    # More batches than are used, so that the input is at work until the end.
    batches = task.warmup + task.steps + config.data.process_ahead
    with tf.Graph().as_default():
        strategy, device = make_strategy(task, config.parallel)
        graph = build_graph(config, strategy, samples, Alphabet.from_file(str(ALPHABET)), batches)
        with make_session(strategy) as session:
            session.run(tf.compat.v1.global_variables_initializer())
            strategy.after_restore(session)
            order = np.arange(batches * strategy.batches_together * task.batch, dtype=np.int32) % len(samples)
            shard = strategy.shard(order, equal_sizes(len(order), task.batch), training=True)
            graph.pipeline.start(session, shard.rows, shard.sizes, shard.fillers, shard.numbers)
            steps, audio_seconds = [], 0.0
            for number in range(task.warmup + task.steps):
                begin = time.perf_counter()
                result = strategy.run_step(session, graph.step)
                strategy.any([False, False])  # as the loop asks after each step whether a rank got a signal
                if number >= task.warmup:
                    steps.append(parts_of(result, time.perf_counter() - begin))
                    audio_seconds += result.totals['audio_seconds']
    sizes = [variable.shape.num_elements() for _, variable in graph.step.gradients]
    return strategy.rank, {
        'steps': steps,
        'audio_seconds': audio_seconds / task.steps,
        'gradient_bytes': 4 * sum(sizes),
        'gradients': len(sizes),
        'device': device,
        'tensorflow': tf.__version__,
    }


def make_strategy(task: Task, parallel: ParallelConfig) -> tuple[Strategy, str]:
    """The strategy, and what its towers are on: GPUs where there are some."""
    from dataclasses import replace

    from deepspeech_training.parallel.devices import get_available_gpus
    from deepspeech_training.parallel.hybrid import HybridStrategy
    from deepspeech_training.parallel.registry import create_strategy

    gpus = get_available_gpus()
    device = 'GPU' if gpus else 'CPU'
    if task.horovod:
        return create_strategy(parallel), device
    if not gpus:
        return create_strategy(replace(parallel, cpu_towers=task.towers)), device
    if task.towers > len(gpus):
        raise FlagError(f'--towers {task.towers}: there are {len(gpus)} GPUs')
    return HybridStrategy(parallel, gpus[: task.towers]), device


def parts_of(result: StepResult, seconds: float) -> dict[str, Any]:
    """The seconds of one step, by the clocks of `parallel/timing.py`."""
    measures = result.measures
    return {
        'seconds': seconds,
        'towers': [value for name, value in measures.items() if name.endswith('/seconds')],
        'averaging': measures['averaging_seconds'],
        'input': result.totals['wait_seconds'],
    }


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
