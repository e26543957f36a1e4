"""Who is measured, and one turn of each: a process of its own, or several that Horovod connects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deepspeech_training.errors import UserError

WORKER = Path(__file__).with_name('worker.py')


@dataclass(frozen=True)
class Task:
    """What a process measures; with `horovod` it is one rank of several."""

    csv: str  # the generated utterances
    n_hidden: int
    batch: int  # utterances a tower
    steps: int  # that are measured
    warmup: int  # steps before those
    lstm: str  # one of LSTM_IMPLEMENTATIONS
    towers: int = 1
    horovod: bool = False


@dataclass(frozen=True)
class Contestant:
    """`task` in one process, or in `ranks` of them."""

    name: str
    task: Task
    ranks: int = 0

    @property
    def workers(self) -> int:
        """Towers in all processes."""
        return self.task.towers * max(1, self.ranks)

    @property
    def examples(self) -> int:
        """Utterances of one step."""
        return self.task.batch * self.workers


@dataclass(frozen=True)
class Step:
    """Where the seconds of one step went."""

    seconds: float
    compute: float  # from its batch to its gradients, as a mean over the towers
    waiting: float  # of the towers for the slowest of them, as a mean
    averaging: float  # from the last gradients to their average
    input: float  # without a batch

    @property
    def rest(self) -> float:
        """Norm, update, and what the processes decide together."""
        return max(0.0, self.seconds - self.compute - self.waiting - self.averaging - self.input)


@dataclass(frozen=True)
class Turn:
    """The measured steps of one turn, and what is the same in all turns."""

    steps: Sequence[Step]
    audio_seconds: float  # of one step of all processes
    gradient_bytes: int
    gradients: int
    device: str
    tensorflow: str


def take_turn(contestant: Contestant) -> Turn:
    """Starts the process, or the ranks, and waits for their end. Raises `UserError` with their output if they fail."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(WORKER), json.dumps(asdict(contestant.task)), folder]
        if contestant.ranks:
            launcher = [sys.executable, '-m', 'horovod.runner.launch']
            ranks = str(contestant.ranks)
            command = [*launcher, '--gloo', '-np', ranks, '-H', f'localhost:{ranks}', *command]
        environment = {'TF_CPP_MIN_LOG_LEVEL': '3', **os.environ}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode:
            raise UserError(f'{contestant.name} failed with status {done.returncode}:\n{done.stdout}{done.stderr}')
        return combine([json.loads(path.read_text()) for path in sorted(Path(folder).iterdir())])


def combine(ranks: Sequence[dict[str, Any]]) -> Turn:
    """One turn from what each rank has measured, step by step.

    The last rank to have its gradients waits for nobody, so that its averaging is nothing else.
    """
    steps = []
    for parts in zip(*(rank['steps'] for rank in ranks), strict=True):
        towers = [seconds for part in parts for seconds in part['towers']]
        compute = sum(towers) / len(towers)
        steps.append(
            Step(
                seconds=max(part['seconds'] for part in parts),
                compute=compute,
                waiting=max(towers) - compute,
                averaging=min(part['averaging'] for part in parts),
                input=max(part['input'] for part in parts),
            )
        )
    first = ranks[0]
    return Turn(
        steps,
        sum(rank['audio_seconds'] for rank in ranks),
        first['gradient_bytes'],
        first['gradients'],
        first['device'],
        first['tensorflow'],
    )
