"""What is there more than once: recordings, transcripts and speakers, in one set or in several."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from deepspeech_training.doctor.examination import Examination
from deepspeech_training.doctor.settings import Settings
from deepspeech_training.doctor.texts import tidy

SHOWN = 5  # speakers in a message

Place = tuple[int, int]
"""The number of a set, and a row of it."""


def find_same_audio(examination: Examination, settings: Settings) -> None:
    """Adds recordings that are there more than once, known by their samples.

    With different transcripts none of them can be trusted. In several sets, it is kept in the last of these, which are
    usually named as train, dev, test: a test set stays what it is.
    """
    for places in _groups_of_same_audio(examination, settings):
        texts = {tidy(examination.sets[number].samples[row].transcript) for number, row in places}
        if len(texts) > 1:
            _add_conflict(examination, places)
            continue
        last_set = max(number for number, _ in places)
        first_in: dict[int, int] = {}
        for number, row in places:
            if number in first_in:
                first = examination.place(number, first_in[number])
                examination.add('duplicate', number, row, f'the same audio and transcript as {first}')
                continue
            first_in[number] = row
        for number, row in first_in.items():
            if number != last_set:
                other = examination.place(last_set, first_in[last_set])
                examination.add('shared', number, row, f'the same audio and transcript as {other}')


def _add_conflict(examination: Examination, places: Sequence[Place]) -> None:
    """Each row with one of those whose transcript is another."""
    for number, row in places:
        transcript = examination.sets[number].samples[row].transcript
        others = ((other, examination.sets[other[0]].samples[other[1]].transcript) for other in places)
        other, text = next((place, text) for place, text in others if tidy(text) != tidy(transcript))
        message = f'{transcript!r}, and {examination.place(*other)} has the same audio with {text!r}'
        examination.add('conflict', number, row, message)


def _groups_of_same_audio(examination: Examination, settings: Settings) -> Iterator[list[Place]]:
    """The rows of each recording that is there more than once. All digital silence is alike, and told as that."""
    numbers, rows, digests = [], [], []
    for number, each in enumerate(examination.sets):
        audible = np.flatnonzero(each.heard & (each.measured['peak'] >= settings.silent))
        numbers.append(np.full(len(audible), number))
        rows.append(audible)
        digests.append(each.measured['digest'][audible])
    if not digests:
        return
    together = np.concatenate(digests)
    order = np.argsort(together, kind='stable')
    where = list(zip(np.concatenate(numbers).tolist(), np.concatenate(rows).tolist(), strict=True))
    ends = np.flatnonzero(np.diff(together[order])) + 1
    for start, end in zip([0, *ends], [*ends, len(order)], strict=True):
        if end - start > 1:
            yield [where[position] for position in order[start:end]]


def find_same_texts(examination: Examination) -> None:
    """Adds, for each two sets, how much of the second's transcripts is in the first, too."""
    texts = [
        Counter(tidy(sample.transcript) for sample in each.samples if sample.transcript.strip())
        for each in examination.sets
    ]
    for (first, _), (second, _) in combinations(enumerate(texts), 2):
        shared = texts[first].keys() & texts[second].keys()
        if shared:
            share = sum(texts[second][text] for text in shared) / texts[second].total()
            message = f'{share:.0%} of its transcripts are in {examination.sets[first].path}, too, as {min(shared)!r}'
            examination.add('text', second, -1, message)


def speakers_of(examination: Examination) -> list[Counter[str]]:
    """How many rows each speaker has, by data set; empty where they are not known."""
    return [Counter(sample.speaker for sample in each.samples if sample.speaker) for each in examination.sets]


def find_same_speakers(examination: Examination, speakers: Sequence[Counter[str]]) -> None:
    """Adds, for each two sets, which speakers are in both."""
    shared: defaultdict[Place, list[str]] = defaultdict(list)
    for first, second in combinations(range(len(speakers)), 2):
        shared[first, second] = sorted(speakers[first].keys() & speakers[second].keys())
    for (first, second), names in shared.items():
        if names:
            share = sum(speakers[second][name] for name in names) / len(examination.sets[second].samples)
            message = (
                f'{share:.0%} of its rows are of speakers who are in {examination.sets[first].path}, too: '
                f'{", ".join(names[:SHOWN])}{", ..." if len(names) > SHOWN else ""}'
            )
            examination.add('speaker', second, -1, message)
