#!/usr/bin/env python
"""Reads audio files and computes MFCCs with PyTorch's DataLoader and torchaudio, as a peer for `bench_input.py`.

Needs `pip install torch torchaudio soundfile`, best in an environment of its own. The names of the files come from
standard input, one a line. Prints one JSON object: seconds an utterance, of the CPU in one thread and by the clock with
a worker for each core.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from functools import cache

import soundfile
import torch
import torchaudio
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Utterances(Dataset):
    """MFCCs `[frames, 26]` with the windows and filters of DeepSpeech."""

    def __init__(self, paths: list[str], sample_rate: int) -> None:
        self.paths = paths
        self.sample_rate = sample_rate
        window, step = sample_rate * 32 // 1000, sample_rate * 20 // 1000
        options = {'n_fft': window, 'hop_length': step, 'n_mels': 40, 'f_min': 20.0, 'center': False}
        self.mfcc = torchaudio.transforms.MFCC(sample_rate, 26, melkwargs=options)
        self.resampler = cache(lambda rate: torchaudio.transforms.Resample(rate, sample_rate))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> Tensor:
        samples, rate = soundfile.read(self.paths[number], dtype='float32', always_2d=True)
        audio = torch.from_numpy(samples).mean(dim=1)
        if rate != self.sample_rate:
            audio = self.resampler(rate)(audio)
        return self.mfcc(audio).T


def epochs(loader: DataLoader, repeats: int) -> tuple[float, float]:
    """Median seconds of an epoch, of this process's CPU and by the clock, after one that is not counted."""
    used, elapsed = [], []
    for _ in range(repeats + 1):
        cpu, clock = time.process_time(), time.perf_counter()
        for _ in loader:
            pass
        used.append(time.process_time() - cpu)
        elapsed.append(time.perf_counter() - clock)
    return statistics.median(used[1:]), statistics.median(elapsed[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--batch_size', type=int, default=16)
    parser.add_argument('--sample_rate', type=int, default=16000)
    parser.add_argument('--epochs', type=int, default=5)
    args = parser.parse_args()

    torch.set_num_threads(1)
    utterances = Utterances(sys.stdin.read().splitlines(), args.sample_rate)
    workers = len(os.sched_getaffinity(0))

    def loader(workers: int) -> DataLoader:
        return DataLoader(
            utterances,
            args.batch_size,
            num_workers=workers,
            persistent_workers=workers > 0,
            collate_fn=lambda batch: pad_sequence(batch, batch_first=True),
        )

    cpu, _ = epochs(loader(0), args.epochs)
    _, clock = epochs(loader(workers), args.epochs)
    version = f'torch {torch.__version__}, torchaudio {torchaudio.__version__}'
    result = {'cpu': cpu / len(utterances), 'clock': clock / len(utterances), 'workers': workers, 'version': version}
    print(json.dumps(result))


if __name__ == '__main__':
    main()
