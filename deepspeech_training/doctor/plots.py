"""Histograms as SVG that stands in a page of HTML."""

from __future__ import annotations

import math
from html import escape

from deepspeech_training.doctor.report import Histogram

WIDTH, HEIGHT = 300, 150  # of the bars
LEFT, TOP, BELOW = 44, 8, 34  # what stands around them
TICKS = 5  # at most, but for one


def as_svg(one: Histogram, name: str) -> str:
    """`name`: what is counted; bars tell their range and count when pointed at."""
    low, high = one.edges[0], one.edges[-1]
    most = max(one.counts)
    parts = [
        f'<svg viewBox="0 0 {LEFT + WIDTH + 12} {TOP + HEIGHT + BELOW}" role="img" aria-label="{escape(name)}">',
        f'<text class="title" x="{LEFT + WIDTH}" y="{TOP + HEIGHT + 30}" text-anchor="end">'
        f'{escape(name)} ({escape(one.unit)})</text>',
    ]
    for start, end, count in zip(one.edges, one.edges[1:], one.counts, strict=False):
        left = LEFT + WIDTH * (start - low) / (high - low)
        height = HEIGHT * count / most
        parts.append(
            f'<rect x="{left:.1f}" y="{TOP + HEIGHT - height:.1f}" width="{WIDTH / len(one.counts) - 1:.1f}" '
            f'height="{height:.1f}"><title>{start:.4g} to {end:.4g} {escape(one.unit)}: {count:,}</title></rect>'
        )
    for value in ticks(low, high):
        x = LEFT + WIDTH * (value - low) / (high - low)
        parts.append(f'<text x="{x:.1f}" y="{TOP + HEIGHT + 14}" text-anchor="middle">{value:g}</text>')
    for value in ticks(0, most):
        y = TOP + HEIGHT - HEIGHT * value / most
        parts.append(f'<path d="M{LEFT} {y:.1f}h{WIDTH}"/>')
        parts.append(f'<text x="{LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    return ''.join([*parts, '</svg>'])


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high`, about `TICKS` of them: steps of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / TICKS
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first = math.ceil(low / step)
    count = math.floor(high / step) - first
    return [round(step * (first + number), 10) for number in range(count + 1)]
