"""Listening in several processes, also when one dies."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from deepspeech_training.data.sources import Source
from deepspeech_training.doctor.examination import ROWS_A_TASK, examine, read_sets
from tests.doctor.sets import sound_set, table


class Deadly(Source):
    """What a decoder that crashes does to its process: here as soon as it is told of the file."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.abort, ()


def test_a_file_that_kills_the_decoder_is_named_and_the_others_are_heard(tmp_path: Path) -> None:
    count = 2 * ROWS_A_TASK
    path = table(tmp_path / 'train.csv', sound_set(tmp_path, count=10) * 7)
    sets = read_sets([str(path)], 'NFC')
    sets[0].samples[5] = replace(sets[0].samples[5], source=Deadly('a.wav'))
    del sets[0].samples[count:]
    sets[0].measured = sets[0].measured[:count]
    examination = examine(sets, 2, False)
    assert [(each.kind, each.row) for each in examination.findings] == [('audio', 5)]
    assert examination.findings[0].problem.message == 'cannot be decoded: a working process was killed by signal 6'
    assert sets[0].heard.sum() == count - 1


def test_processes_hear_the_same_as_one(tmp_path: Path) -> None:
    path = table(tmp_path / 'train.csv', sound_set(tmp_path, count=ROWS_A_TASK + 5))
    alone, together = (examine(read_sets([str(path)], 'NFC'), processes, False) for processes in (1, 2))
    assert (alone.sets[0].measured == together.sets[0].measured).all()
    assert alone.sets[0].heard.all()
