"""The same files through PyTorch, in a Python that has it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deepspeech_training.errors import FlagError
from input_bench.stage import Stage

PEER = Path(__file__).resolve().parents[1] / 'bench_peer_torchaudio.py'


def time_peer(
    python: str, paths: Sequence[str], *, batch_size: int, sample_rate: int, repeats: int, audio_seconds: float
) -> list[Stage]:
    """CPU time in one thread, and what a `DataLoader` with a worker for each core delivers by the clock.

    Raises `FlagError` where `python` cannot run it.
    """
    options = [f'--batch_size={batch_size}', f'--sample_rate={sample_rate}', f'--epochs={repeats}']
    try:
        done = subprocess.run(
            [python, str(PEER), *options], input='\n'.join(paths), capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise FlagError(f'--peer_python={python}: cannot be run: {error.strerror}') from error
    if done.returncode:
        raise FlagError(f'--peer_python={python}: {PEER.name} failed: {done.stderr.strip() or done.returncode}')
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f'the peer: {result["version"]}, {result["workers"]} workers')
    return [
        Stage('PyTorch, CPU time', result['cpu'], audio_seconds),
        Stage('PyTorch, by the clock', result['clock'], audio_seconds),
    ]
