#!/usr/bin/env python
"""The same acoustic model and training step in PyTorch, as a peer for `bench_step.py`.

Needs `pip install torch==2.13.0`, best in an environment of its own. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import torch
from torch import Tensor, nn
from torch.nn import functional

N_INPUT, N_CONTEXT, N_OUTPUT = 26, 9, 29


class AcousticModel(nn.Module):
    """Three clipped-ReLU layers, the first over context, an LSTM, one more clipped-ReLU layer, the output layer."""

    def __init__(self, n_hidden: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.layer_1 = nn.Conv1d(N_INPUT, n_hidden, 2 * N_CONTEXT + 1, padding=N_CONTEXT)
        self.layer_2 = nn.Linear(n_hidden, n_hidden)
        self.layer_3 = nn.Linear(n_hidden, n_hidden)
        self.lstm = nn.LSTM(n_hidden, n_hidden)
        self.layer_5 = nn.Linear(n_hidden, n_hidden)
        self.layer_6 = nn.Linear(n_hidden, N_OUTPUT)

    def activate(self, x: Tensor) -> Tensor:
        return functional.dropout(functional.hardtanh(x, 0, 20), self.dropout)

    def forward(self, features: Tensor) -> Tensor:
        """Logits `[frames, batch, N_OUTPUT]` from `[batch, frames, N_INPUT]`."""
        x = self.activate(self.layer_1(features.transpose(1, 2))).permute(2, 0, 1)
        x = self.activate(self.layer_3(self.activate(self.layer_2(x))))
        x, _ = self.lstm(x)
        return self.layer_6(self.activate(self.layer_5(x)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--n_hidden', type=int, required=True)
    parser.add_argument('--batch', type=int, required=True)
    parser.add_argument('--frames', type=int, required=True)
    parser.add_argument('--steps', type=int, default=5)
    parser.add_argument('--warmup', type=int, default=2)
    parser.add_argument('--dropout', type=float, default=0.05)
    args = parser.parse_args()

    torch.manual_seed(0)
    model = AcousticModel(args.n_hidden, args.dropout)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    features = torch.randn(args.batch, args.frames, N_INPUT)
    characters = max(1, args.frames // 6)
    labels = torch.randint(0, N_OUTPUT - 1, (args.batch, characters))
    lengths = torch.full((args.batch,), args.frames)
    label_lengths = torch.full((args.batch,), characters)
    seconds = []
    for _ in range(args.warmup + args.steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        log_probabilities = functional.log_softmax(model(features), -1)
        losses = functional.ctc_loss(
            log_probabilities, labels, lengths, label_lengths, blank=N_OUTPUT - 1, reduction='sum'
        )
        loss = losses / args.batch
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    result = {
        'seconds': seconds[args.warmup :],
        'loss': float(loss),
        'peak_mb': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        'version': f'PyTorch {torch.__version__}, {torch.get_num_threads()} threads',
    }
    print(json.dumps(result))


if __name__ == '__main__':
    main()
