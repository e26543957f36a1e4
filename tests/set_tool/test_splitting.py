"""Which samples go where."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from deepspeech_training.data.manifest import Sample
from deepspeech_training.errors import DataError, FlagError
from deepspeech_training.set_tool.splitting import Amount, choose_way, parse_amount, parse_parts, pick, split


def samples(count: int, speakers: Sequence[str] = ()) -> list[Sample]:
    names = speakers or [''] * count
    return [Sample(f'wav/{n}.wav', 1, f'text {n}', 'all.csv', n + 2, speaker=names[n]) for n in range(count)]


def voices(count: int) -> list[str]:
    """Speakers of 200 samples, some of whom speak often."""
    random = np.random.default_rng(5)
    return [f'speaker {int(count * number**2)}' for number in random.random(200)]


@pytest.mark.parametrize(
    ('text', 'sizes'),
    [
        ('rest,10%,10%', [160, 20, 20]),
        ('rest,30,10%', [150, 30, 20]),
        ('80%, 10%, 10%', [160, 20, 20]),
        ('33.3%,33.3%,33.4%', [66, 67, 67]),
        ('50,rest', [50, 150]),
        ('199,rest', [199, 1]),
    ],
)
def test_sizes_by_utterance(text: str, sizes: list[int]) -> None:
    everything = samples(200)
    parts = split(everything, parse_parts(text), 'utterance')
    assert [len(part) for part in parts] == sizes
    assert sorted(sample.line for part in parts for sample in part) == [sample.line for sample in everything]
    for part in parts:
        assert [sample.line for sample in part] == sorted(sample.line for sample in part), 'in their order'


def test_the_order_does_not_matter() -> None:
    everything, parts = samples(200), parse_parts('rest,10%,10%')
    forwards, backwards = split(everything, parts, 'utterance'), split(everything[::-1], parts, 'utterance')
    assert [set(part) for part in forwards] == [set(part) for part in backwards]


def test_a_utterance_that_is_listed_twice_is_in_one_part() -> None:
    parts = split(samples(100) + samples(100), parse_parts('rest,20%'), 'utterance')
    assert not {sample.path for sample in parts[0]} & {sample.path for sample in parts[1]}


def test_no_speaker_is_in_two_parts() -> None:
    everything = samples(200, voices(30))
    parts = split(everything, parse_parts('rest,15%,15%'), 'speaker')
    sets = [{sample.speaker for sample in part} for part in parts]
    assert sum(len(each) for each in sets) == len({sample.speaker for sample in everything})
    assert [len(part) for part in parts] == pytest.approx([140, 30, 30], abs=15)


def test_the_way_to_split() -> None:
    assert choose_way(samples(200), 'auto', 3) == 'utterance'
    assert choose_way(samples(200, voices(30)), 'auto', 3) == 'speaker'
    assert choose_way(samples(200, voices(4)), 'auto', 3) == 'utterance', 'too few speakers'
    assert choose_way(samples(200, voices(4)), 'speaker', 3) == 'speaker'
    assert choose_way(samples(200, voices(30)), 'utterance', 3) == 'utterance'
    assert choose_way([*samples(200, voices(30)), *samples(1)], 'auto', 3) == 'utterance', 'one is not known'
    with pytest.raises(DataError, match=r'--split_by=speaker: all.csv:2: the speaker is not known'):
        choose_way([*samples(200, voices(30)), *samples(1)], 'speaker', 3)
    with pytest.raises(DataError, match='1 speakers are too few for 3 parts'):
        choose_way(samples(3, ['ann'] * 3), 'speaker', 3)


def test_parts_that_would_be_empty() -> None:
    with pytest.raises(DataError, match='part 2 of 2 would be empty'):
        split(samples(4), parse_parts('rest,5%'), 'utterance')
    with pytest.raises(DataError, match='500 utterances are asked for, there are 4'):
        split(samples(4), parse_parts('rest,500'), 'utterance')
    with pytest.raises(DataError, match='would be empty'):
        split(samples(4), parse_parts('rest,4'), 'utterance')


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('10%', 'name two parts or more'),
        ('rest,rest', 'of which one may be rest'),
        ('80%,10%', 'let one part be rest'),
        ('100,200', 'let one part be rest'),
        ('rest,110%', 'must be a number'),
        ('rest,60%,60%', 'makes 120%'),
        ('rest,0', 'must be a number'),
        ('rest,-5', 'must be a number'),
        ('rest,ten', '--split=ten: must be a number of utterances, as 500, or a share, as 10%'),
        ('rest,,10', 'must be a number'),
        ('8:1:1', 'must be a number'),
    ],
)
def test_what_are_no_parts(text: str, message: str) -> None:
    with pytest.raises(FlagError, match=message):
        parse_parts(text)


def test_amounts() -> None:
    assert parse_amount('sample', '500') == Amount(count=500)
    assert parse_amount('sample', '12.5%') == Amount(percent=12.5)
    assert parse_amount('sample', '.5%').of(1000) == 5


def test_samples_are_drawn_by_the_seed() -> None:
    everything = samples(100)
    drawn = [pick(everything, Amount(percent=20), seed) for seed in (1, 1, 2)]
    assert [len(some) for some in drawn] == [20, 20, 20]
    assert drawn[0] == drawn[1] != drawn[2]
    assert [sample.line for sample in drawn[0]] == sorted(sample.line for sample in drawn[0])
    assert pick(everything, Amount(count=100), 1) == everything
    with pytest.raises(FlagError, match='--sample: 101 of 100 utterances cannot be drawn'):
        pick(everything, Amount(count=101), 1)
