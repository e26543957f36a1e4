"""Which utterances are for training, which for dev and test, where a corpus does not say."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

TRAIN, DEV, TEST = 'train', 'dev', 'test'
FEWEST_SPEAKERS = 10  # with fewer, a split by speaker would be of one or two voices, or far from the shares
BY_SPEAKER, BY_UTTERANCE = 'speaker', 'utterance'


@dataclass(frozen=True)
class Shares:
    """Of all utterances."""

    dev: float
    test: float


def way_to_split(speakers: Sequence[str]) -> str:
    """By speaker where all are known and there are enough of them, else by utterance. `speakers`: of each utterance."""
    return BY_SPEAKER if all(speakers) and len(set(speakers)) >= FEWEST_SPEAKERS else BY_UTTERANCE


def choose_splits(names: Sequence[str], speakers: Sequence[str], way: str, shares: Shares) -> list[str]:
    """The split of each utterance: train, dev or test.

    It depends on names only, not on their order or on random numbers, so that it is the same on each machine. By
    utterance, it does not change either when others are added. By speaker, no speaker is in two splits.
    """
    if way == BY_UTTERANCE:
        return [_by_position(_position(name), shares) for name in names]
    counts = Counter(speakers)
    wanted = {TEST: shares.test * len(names), DEV: shares.dev * len(names)}
    split_of = dict.fromkeys(counts, TRAIN)
    for split, size in wanted.items():
        for speaker in sorted(counts, key=_position):
            # A speaker goes where that comes nearer to what is wanted; the first one always.
            if split_of[speaker] == TRAIN and size > 0 and counts[speaker] / 2 <= size:
                split_of[speaker] = split
                size -= counts[speaker]
    return [split_of[speaker] for speaker in speakers]


def _position(name: str) -> float:
    """From 0 to 1, the same for a name always and everywhere."""
    return int.from_bytes(hashlib.sha256(name.encode(errors='surrogateescape')).digest()[:8], 'big') / 2**64


def _by_position(position: float, shares: Shares) -> str:
    if position < shares.test:
        return TEST
    return DEV if position < shares.test + shares.dev else TRAIN
