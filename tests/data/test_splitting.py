"""Splits are the same everywhere, near to their shares, and no speaker is in two."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from deepspeech_training.data.splitting import (
    BY_SPEAKER,
    BY_UTTERANCE,
    Shares,
    choose_splits,
    share_out_groups,
    way_to_split,
)

SHARES = Shares(dev=0.1, test=0.2)
KNOWN = ['train', 'dev', 'test', 'test', 'dev', 'test']
"""The splits of 'a' to 'f': the first eight bytes of `printf a | sha256sum` are 0xca978112ca1bbdca, a share of 0.79."""


def test_which_way() -> None:
    assert way_to_split([f'p{number}' for number in range(5)]) == BY_SPEAKER
    assert way_to_split([f'p{number}' for number in range(5)], parts=6) == BY_UTTERANCE
    assert way_to_split(['a', 'b', 'c', 'd'] * 10) == BY_UTTERANCE
    assert way_to_split([*(f'p{number}' for number in range(20)), '']) == BY_UTTERANCE
    assert way_to_split([]) == BY_UTTERANCE


def test_by_utterance_an_utterance_stays_where_it_is() -> None:
    names = [f'clips/{number}' for number in range(5000)]
    splits = choose_splits(names, [''] * len(names), BY_UTTERANCE, SHARES)
    counts = Counter(splits)
    assert abs(counts['dev'] / 5000 - 0.1) < 0.02
    assert abs(counts['test'] / 5000 - 0.2) < 0.02
    assert choose_splits(names[1000:], [''] * 4000, BY_UTTERANCE, SHARES) == splits[1000:]
    known = choose_splits(['a', 'b', 'c', 'd', 'e', 'f'], [''] * 6, BY_UTTERANCE, SHARES)
    assert known == KNOWN


def test_by_speaker_none_is_in_two_and_the_shares_are_near() -> None:
    generator = random.Random(3)
    speakers = [f's{number}' for number in range(40) for _ in range(generator.randrange(1, 60))]
    names = [str(number) for number in range(len(speakers))]
    splits = choose_splits(names, speakers, BY_SPEAKER, SHARES)
    of_speaker: dict[str, set[str]] = {}
    for speaker, split in zip(speakers, splits, strict=True):
        of_speaker.setdefault(speaker, set()).add(split)
    assert {len(found) for found in of_speaker.values()} == {1}
    counts = Counter(splits)
    assert abs(counts['dev'] / len(names) - 0.1) < 0.03
    assert abs(counts['test'] / len(names) - 0.2) < 0.03
    order = list(range(len(names)))
    generator.shuffle(order)
    shuffled = choose_splits([names[i] for i in order], [speakers[i] for i in order], BY_SPEAKER, SHARES)
    assert shuffled == [splits[i] for i in order]


def test_shares_of_nothing() -> None:
    names = [str(number) for number in range(300)]
    for way in (BY_SPEAKER, BY_UTTERANCE):
        assert set(choose_splits(names, [name[:1] for name in names], way, Shares(0, 0))) == {'train'}


@pytest.mark.parametrize('counts', [[1] * 5, [1, 96, 1, 1, 1], [20, 1, 20, 20, 20], [100, 100, 100, 100, 1]])
def test_few_speakers_are_enough_for_each_split(counts: list[int]) -> None:
    speakers = [f's{number}' for number, count in enumerate(counts) for _ in range(count)]
    splits = Counter(choose_splits(speakers, speakers, BY_SPEAKER, Shares(dev=0.1, test=0.1)))
    assert set(splits) == {'train', 'dev', 'test'}
    assert max(splits['dev'], splits['test']) <= max(0.2 * len(speakers), min(counts), sorted(counts)[1])


def test_groups_are_left_for_the_other_parts() -> None:
    assert sorted(share_out_groups('abc', [2, 2, 2], rest=0)) == [0, 1, 2]
    assert sorted(share_out_groups('ab' * 3, [0, 3, 3], rest=0)) == [1, 1, 1, 2, 2, 2], 'nothing is to be left'
    assert share_out_groups('aaa', [2, 1], rest=0) == [0, 0, 0], 'one cannot be in both'
