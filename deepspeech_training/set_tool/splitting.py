"""Which samples go where: some of all, or all shared out among parts."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deepspeech_training.data.manifest import Sample
from deepspeech_training.data.splitting import BY_SPEAKER, BY_UTTERANCE, share_out_groups, way_to_split
from deepspeech_training.errors import DataError, FlagError

REST = 'rest'
AMOUNT = re.compile(r'(\d+)|(\d+(?:\.\d*)?|\.\d+)%')
AUTO = 'auto'
WAYS = (AUTO, BY_SPEAKER, BY_UTTERANCE)


@dataclass(frozen=True)
class Amount:
    """A number of samples, a share of all, or what the others leave."""

    count: int = 0
    percent: float = 0.0
    is_rest: bool = False

    def of(self, total: int) -> int:
        """How many of `total`; 0 for the rest."""
        return self.count or round(total * self.percent / 100)


def parse_amount(flag: str, text: str) -> Amount:
    """`500` or `12.5%`. Raises `FlagError`."""
    match = AMOUNT.fullmatch(text.strip())
    amount = Amount(int(match[1] or 0), float(match[2] or 0)) if match else Amount()
    if not (amount.count or 0 < amount.percent <= 100):
        raise FlagError(f'--{flag}={text}: must be a number of utterances, as 500, or a share, as 10%')
    return amount


def parse_parts(text: str) -> list[Amount]:
    """`rest,500,500`, `80%,10%,10%`: one may be the rest; without it, they make 100%. Raises `FlagError`."""
    parts = [Amount(is_rest=True) if each.strip() == REST else parse_amount('split', each) for each in text.split(',')]
    rests = sum(part.is_rest for part in parts)
    if len(parts) < 2 or rests > 1:
        raise FlagError(f'--split={text}: name two parts or more, of which one may be {REST}')
    percent = sum(part.percent for part in parts)
    if not rests and (any(part.count for part in parts) or abs(percent - 100) > 1e-6):
        raise FlagError(f'--split={text}: does not say where all utterances go; let one part be {REST}')
    if percent > 100 + 1e-6:
        raise FlagError(f'--split={text}: makes {percent:g}%')
    return parts


def pick(samples: Sequence[Sample], amount: Amount, seed: int) -> list[Sample]:
    """Some of `samples`, drawn at random, in their order. Raises `FlagError` where there are not as many."""
    wanted = amount.of(len(samples))
    if not 0 < wanted <= len(samples):
        raise FlagError(f'--sample: {wanted} of {len(samples)} utterances cannot be drawn')
    random = np.random.default_rng([seed & 0xFFFFFFFF, len(samples)])
    chosen = random.choice(len(samples), wanted, replace=False)
    return [samples[position] for position in sorted(chosen.tolist())]


def choose_way(samples: Sequence[Sample], way: str, parts: int) -> str:
    """`auto` is by speaker where all are known and there are enough. Raises `DataError` where that cannot be."""
    speakers = {sample.speaker for sample in samples}
    if way == AUTO:
        return way_to_split(list(speakers), parts)
    if way == BY_SPEAKER:
        unknown = next((sample for sample in samples if not sample.speaker), None)
        if unknown:
            raise DataError(f'--split_by=speaker: {unknown.place}: the speaker is not known')
        if len(speakers) < parts:
            raise DataError(f'--split_by=speaker: {len(speakers)} speakers are too few for {parts} parts')
    return way


def split(samples: Sequence[Sample], parts: Sequence[Amount], way: str) -> list[list[Sample]]:
    """The samples of each part, in their order.

    By utterance, parts have the sizes that are asked for, and one recording with one transcript is in one part only,
    however often it is listed. By speaker, no speaker is in two parts, and sizes are near. Which goes where depends on
    names and transcripts only, by a hash, not on their order.

    Raises `DataError` where a part would be empty.
    """
    groups = [sample.speaker if way == BY_SPEAKER else _identity(sample) for sample in samples]
    sizes = _sizes(parts, len(samples))
    rest = max(range(len(parts)), key=lambda part: (parts[part].is_rest, sizes[part]))
    found: list[list[Sample]] = [[] for _ in parts]
    for sample, part in zip(samples, share_out_groups(groups, sizes, rest), strict=True):
        found[part].append(sample)
    if [] in found:
        raise DataError(
            f'--split: part {found.index([]) + 1} of {len(parts)} would be empty: there are {len(samples)} utterances'
            + (f' of {len(set(groups))} speakers' if way == BY_SPEAKER else '')
        )
    return found


def _sizes(parts: Sequence[Amount], total: int) -> list[int]:
    """How many samples each part shall have; they add up to `total`. Raises `DataError` where there are too few."""
    sizes = [part.of(total) for part in parts]
    left = total - sum(sizes)
    if left < 0 and all(part.percent for part in parts):
        sizes[sizes.index(max(sizes))] += left  # all were rounded up
    elif left < 0:
        raise DataError(f'--split: {sum(sizes)} utterances are asked for, there are {total}')
    else:
        fill = next((number for number, part in enumerate(parts) if part.is_rest), sizes.index(max(sizes)))
        sizes[fill] += left
    return sizes


def _identity(sample: Sample) -> str:
    return f'{os.path.basename(sample.path)}\n{sample.transcript}'
