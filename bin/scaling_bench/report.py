"""The tables of bin/bench_scaling.py."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scaling_bench.projection import Network, Process, Projection, ring_gbits
from scaling_bench.turns import Contestant, Step, Turn

PARTS: dict[str, Callable[[Step], float]] = {
    'step': lambda step: step.seconds,
    'compute': lambda step: step.compute,
    'waiting': lambda step: step.waiting,
    'averaging': lambda step: step.averaging,
    'input': lambda step: step.input,
    'rest': lambda step: step.rest,
}


@dataclass(frozen=True)
class Results:
    """All turns of one contestant."""

    contestant: Contestant
    turns: Sequence[Turn]

    def seconds(self, part: str = 'step') -> float:
        """The median over all steps of all turns."""
        return statistics.median(PARTS[part](step) for turn in self.turns for step in turn.steps)

    @property
    def examples_per_second(self) -> float:
        return self.contestant.examples / self.seconds()

    @property
    def audio_seconds_per_second(self) -> float:
        return self.turns[0].audio_seconds / self.seconds()

    @property
    def name(self) -> str:
        return self.contestant.name

    def by_turn(self) -> list[float]:
        """Examples a second in each turn."""
        medians = [statistics.median(step.seconds for step in turn.steps) for turn in self.turns]
        return [self.contestant.examples / median for median in medians]

    def ratio_to(self, other: Results) -> str:
        """Of examples a second; behind it the least and the greatest ratio of turns that followed each other."""
        ratios = [own / its for own, its in zip(self.by_turn(), other.by_turn(), strict=True)]
        ratio = self.examples_per_second / other.examples_per_second
        return f'{ratio:.2f} ({min(ratios):.2f}-{max(ratios):.2f})'

    def as_process(self) -> Process:
        first = self.turns[0]
        return Process(self.seconds(), self.contestant.examples, first.gradient_bytes, first.gradients)

    def as_json(self) -> dict[str, Any]:
        return {
            'name': self.name,
            'examples_per_second': self.examples_per_second,
            'audio_seconds_per_second': self.audio_seconds_per_second,
            'median_seconds': {part: self.seconds(part) for part in PARTS},
            'turns': [asdict(turn) for turn in self.turns],
        }


def print_results(results: Sequence[Results], frames: int) -> None:
    first = results[0]
    task, turn = first.contestant.task, first.turns[0]
    print(
        f'n_hidden {task.n_hidden}, batches of {task.batch} a tower, {frames} frames; {turn.device}, TensorFlow '
        f'{turn.tensorflow}; {len(first.turns)} turns of {task.steps} steps, in alternation'
    )
    heads = ''.join(f'{part:>10}' for part in PARTS)
    print(f'{"":22}{"examples/s":>11}{"audio s/s":>11}  {"ratio (range)":18}{heads}   (medians, s)')
    for result in results:
        seconds = ''.join(f'{result.seconds(part):10.4f}' for part in PARTS)
        print(
            f'{result.name:22}{result.examples_per_second:11.1f}{result.audio_seconds_per_second:11.1f}  '
            f'{result.ratio_to(first):18}{seconds}'
        )
    for wide in results:
        if wide.contestant.workers == 1 and wide.contestant.examples > task.batch:
            for other in results:
                if other.contestant.workers > 1 and other.contestant.examples == wide.contestant.examples:
                    print(f'{other.name} against {wide.name}: {other.ratio_to(wide)} of its examples a second')
    for result in results:
        ranks = result.contestant.ranks
        if ranks > 1:
            gbits = ring_gbits(ranks, turn.gradient_bytes, result.seconds('averaging'))
            print(
                f'{result.name}: gradients sent at {gbits:.1f} Gbit/s, counting only the time behind the backward pass'
            )


def print_projection(process: Process, network: Network, overlap: float, projections: Sequence[Projection]) -> None:
    print(
        f'\nProjection: one process like "1 tower" on each GPU, {process.step_seconds:.4f} s a step; '
        f'{process.gradient_bytes / 1e6:.1f} MB of gradients in {process.gradients} tensors; '
        f'{network.gbits:g} Gbit/s, {network.latency_us:g} us; {100 * overlap:.0f}% of averaging overlapped'
    )
    print(f'{"GPUs":>6}{"averaging s":>13}{"step s":>10}{"examples/s":>12}{"efficiency":>12}')
    for each in projections:
        print(
            f'{each.gpus:6}{each.averaging_seconds:13.4f}{each.step_seconds:10.4f}{each.examples_per_second:12.1f}'
            f'{100 * each.efficiency:11.1f}%'
        )
