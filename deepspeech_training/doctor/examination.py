"""Reads data sets and listens to every recording in them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice

import numpy as np
import numpy.typing as npt

from deepspeech_training import log
from deepspeech_training.data.formats import read_data_set
from deepspeech_training.data.manifest import Problem, Sample
from deepspeech_training.data.remembered import memory_folder
from deepspeech_training.data.sources import load_source
from deepspeech_training.doctor.kinds import Finding
from deepspeech_training.doctor.listening import Recording, listen
from deepspeech_training.errors import DataError
from deepspeech_training.text.alphabet import normalize
from deepspeech_training.workers import share_out

ROWS_A_TASK = 32

MEASURED = np.dtype(
    [
        ('heard', '?'),  # false: the audio cannot be used, and the other fields mean nothing
        ('size', '<i8'),
        ('frames', '<i8'),
        ('sample_rate', '<i4'),
        ('channels', '<i4'),
        ('format', '<i4'),  # a position in `Examination.formats`
        *((name, '<f4') for name in ('peak', 'level', 'offset', 'active', 'leading', 'trailing', 'clipped')),
        ('clipped_run', '<i4'),
        ('digest', '<u8'),
        ('seconds', '<f8'),
    ]
)
"""A `Recording` as a row of an array, so that a million of them fit into memory."""


@dataclass
class DataSet:
    """A data set with what was measured of its audio."""

    path: str
    samples: list[Sample]
    problems: list[Problem]  # of rows that cannot be read
    measured: npt.NDArray[np.void]  # MEASURED [samples]
    other_form: list[int]  # rows whose transcripts were in another Unicode normal form

    @property
    def heard(self) -> npt.NDArray[np.bool_]:
        """Whether the audio of each row could be used: `[samples]`."""
        heard: npt.NDArray[np.bool_] = self.measured['heard']
        return heard


@dataclass
class Examination:
    """All data sets, and what was found so far."""

    sets: list[DataSet]
    formats: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def add(self, kind: str, number: int, row: int, message: str) -> None:
        """Something about a row of the set with this number; `row` -1: about the set."""
        each = self.sets[number]
        problem = Problem(each.path, 0, '', message) if row < 0 else each.samples[row].problem(message)
        self.findings.append(Finding(kind, number, row, problem))

    def place(self, number: int, row: int) -> str:
        """A row as messages name it: 'train.csv:12'."""
        return self.sets[number].samples[row].place


def read_sets(paths: Sequence[str], form: str) -> list[DataSet]:
    """Reads data sets; `form` is the Unicode normal form that transcripts get, as before a training.

    Raises `DataError` that names all that cannot be read.
    """
    sets, errors = [], []
    for path in paths:
        try:
            sets.append(_read_set(path, form))
        except DataError as error:
            errors.append(str(error))
    if errors:
        raise DataError('\n'.join(errors))
    return sets


def _read_set(path: str, form: str) -> DataSet:
    samples, problems = read_data_set(path, folder=memory_folder(''))
    other_form = []
    for row, sample in enumerate(samples):
        transcript = normalize(sample.transcript, form)
        if transcript != sample.transcript:
            other_form.append(row)
            samples[row] = replace(sample, transcript=transcript)
    return DataSet(path, samples, problems, np.zeros(len(samples), MEASURED), other_form)


def examine(sets: list[DataSet], processes: int, show_progressbar: bool, channel: int = 0) -> Examination:
    """Listens to all recordings of `sets`; rows and audio that cannot be read are the first findings.

    `channel`: the one that a training picks, counted from 1; 0: the mean of all.
    """
    examination = Examination(sets)
    formats: dict[str, int] = {}
    for number, each in enumerate(sets):
        for problem in each.problems:
            examination.findings.append(Finding('row', number, -1, problem))
    total = sum(len(each.samples) for each in sets)
    processes = min(processes, -(-total // ROWS_A_TASK))
    rows = ((number, row) for number, each in enumerate(sets) for row in range(len(each.samples)))
    heard = chain.from_iterable(share_out(Listener(channel), _tasks(sets), processes, Listener(channel).to_each))
    with log.progress('Listening', total, show_progressbar) as bar:
        for (number, row), result in zip(rows, heard, strict=True):
            if isinstance(result, str):
                examination.add('audio', number, row, result)
            else:
                format_number = formats.setdefault(result.format, len(formats))
                sets[number].measured[row] = _as_row(result, format_number)
            bar.advance()
    examination.formats = list(formats)
    return examination


@dataclass(frozen=True)
class Listener:
    """What the processes do."""

    channel: int

    def __call__(self, samples: Sequence[Sample]) -> list[Recording | str]:
        """What each recording is like, or what is wrong with it."""
        return [self._listen_to(sample) for sample in samples]

    def to_each(self, samples: Sequence[Sample], how: str) -> list[Recording | str]:
        """After a process died on `samples`: each gets another one, so that only what is to blame is lost."""
        if len(samples) == 1:
            return [f'cannot be decoded: {how}']
        results = share_out(self, ([sample] for sample in samples), 2, self.to_each)
        return list(chain.from_iterable(results))

    def _listen_to(self, sample: Sample) -> Recording | str:
        try:
            if sample.source is not None:
                return listen(sample.path, load_source(sample.path, sample.source), self.channel)
            status = os.stat(sample.path)
            if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
                return 'is not a file'
            with open(sample.path, 'rb') as file:
                content = file.read()
            return listen(sample.path, content, self.channel)
        except FileNotFoundError:
            return 'the audio file does not exist'
        except OSError as error:
            return f'cannot be read: {error.strerror}'
        except MemoryError:
            return 'does not fit into memory'
        except DataError as error:
            return str(error).removeprefix(f'{sample.path}: ')


def _tasks(sets: Sequence[DataSet]) -> Iterator[list[Sample]]:
    samples = chain.from_iterable(each.samples for each in sets)
    return iter(partial(_take, samples), [])


def _take(samples: Iterator[Sample]) -> list[Sample]:
    return list(islice(samples, ROWS_A_TASK))


def _as_row(recording: Recording, format_number: int) -> tuple[object, ...]:
    values = recording._replace(format=format_number)._asdict()  # type: ignore[arg-type]
    values |= {'heard': True, 'seconds': recording.frames / recording.sample_rate}
    return tuple(values[name] for name in MEASURED.names or ())
