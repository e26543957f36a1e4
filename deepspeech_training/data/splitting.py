"""Which samples are for training, which for dev and test, or how parts of any number are shared out.

All depends on names only, by a hash, not on their order or on random numbers, so that it is the same on each machine.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

TRAIN, DEV, TEST = 'train', 'dev', 'test'
SPLITS = (TRAIN, DEV, TEST)
BY_SPEAKER, BY_UTTERANCE = 'speaker', 'utterance'
FEWEST_SPEAKERS = 5  # of fewer, a part of 10% would have more than twice its share


@dataclass(frozen=True)
class Shares:
    """Of all utterances; the others are for training."""

    dev: float
    test: float


def way_to_split(speakers: Sequence[str], parts: int = len(SPLITS)) -> str:
    """By speaker where all are known and there are enough of them, else by utterance. `speakers`: of each utterance."""
    return BY_SPEAKER if all(speakers) and len(set(speakers)) >= max(FEWEST_SPEAKERS, parts) else BY_UTTERANCE


def choose_splits(names: Sequence[str], speakers: Sequence[str], way: str, shares: Shares) -> list[str]:
    """The split of each utterance: train, dev or test.

    By utterance, it does not change when others are added. By speaker, no speaker is in two splits.
    """
    if way == BY_UTTERANCE:
        return [_by_position(_position(name), shares) for name in names]
    sizes = [share * len(names) for share in (1 - (shares.dev + shares.test), shares.dev, shares.test)]
    return [SPLITS[part] for part in share_out_groups(speakers, sizes, rest=0)]


def share_out_groups(groups: Sequence[str], sizes: Sequence[float], rest: int) -> list[int]:
    """The part of each sample, so that no group is in two parts, and parts are near to their sizes.

    `groups`: of each sample. `rest`: the part that has what the others leave. Each part of a size above 0 has a group
    if there are enough.
    """
    counts = Counter(groups)
    order = sorted(counts, key=lambda group: (_position(group), group))
    part_of: dict[str, int] = {}
    waiting = [part for part in sorted(range(len(sizes)), key=sizes.__getitem__) if part != rest and sizes[part] > 0]
    for later, part in zip(reversed(range(len(waiting))), waiting, strict=True):
        free = [group for group in order if group not in part_of]
        spare = len(free) - later - (sizes[rest] > 0)
        for group in _fitting(free, counts, sizes[part])[: max(spare, 0)]:
            part_of[group] = part
    return [part_of.get(group, rest) for group in groups]


def _fitting(groups: Sequence[str], counts: Counter[str], size: float) -> list[str]:
    """Those that together come near to a size; the smallest, where each is far larger."""
    found = []
    for group in groups:
        # A group is taken where that comes nearer to what is wanted.
        if size > 0 and counts[group] / 2 <= size:
            found.append(group)
            size -= counts[group]
    return found or sorted(groups, key=counts.__getitem__)[:1]


def _position(name: str) -> float:
    """From 0 to 1, the same for a name always and everywhere."""
    return int.from_bytes(hashlib.sha256(name.encode(errors='surrogateescape')).digest()[:8], 'big') / 2**64


def _by_position(position: float, shares: Shares) -> str:
    if position < shares.test:
        return TEST
    return DEV if position < shares.test + shares.dev else TRAIN
