"""What the doctor tells: data sets in figures, characters, findings."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deepspeech_training.doctor.examination import DataSet, Examination
from deepspeech_training.doctor.kinds import ERROR, KINDS, SEVERITIES, Finding
from deepspeech_training.doctor.repetitions import find_same_audio, find_same_speakers, find_same_texts, speakers_of
from deepspeech_training.doctor.settings import Settings
from deepspeech_training.doctor.sounds import find_in_audio
from deepspeech_training.doctor.texts import characters_a_second, count_characters, find_in_texts
from deepspeech_training.text.alphabet import Alphabet

JSON_VERSION = 1  # to be raised where what is there already changes its meaning
BINS = 24
LEAST_LEVEL = 1e-5  # -100 dBFS, what digital silence is shown as
LEAST_RANGE = 1e-6  # of a histogram


@dataclass(frozen=True)
class Histogram:
    """How many values lie between each two neighbours of `edges`."""

    unit: str
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    least: float
    median: float
    most: float


@dataclass(frozen=True)
class SetFigures:
    """A data set in figures."""

    path: str
    rows: int  # those that cannot be read included
    usable: int  # without an error
    seconds: float  # of all audio that can be read
    characters: int
    sample_rates: dict[str, int]  # how many recordings
    channels: dict[str, int]
    formats: dict[str, int]
    speakers: dict[str, int]  # the most frequent first; empty where they are not known
    findings: dict[str, int]  # by kind
    histograms: dict[str, Histogram]


@dataclass(frozen=True)
class CharacterFigures:
    """A character of the transcripts."""

    character: str
    count: int
    first: str  # where, as in 'train.csv:12'
    known: bool  # in the alphabet; true without one, or with that of bytes


@dataclass(frozen=True)
class Report:
    """All of it."""

    sets: tuple[SetFigures, ...]
    characters: tuple[CharacterFigures, ...]
    unused_labels: tuple[str, ...]  # of the alphabet, that no transcript has
    findings: tuple[Finding, ...]  # errors first, by kind, in the order of the sets

    def count(self, severity: str) -> int:
        """How many findings are so bad."""
        return sum(finding.severity == severity for finding in self.findings)


def diagnose(examination: Examination, alphabet: Alphabet | None, settings: Settings) -> Report:
    """Looks for everything that recordings and transcripts can have wrong."""
    characters = count_characters(examination)
    speakers = speakers_of(examination)
    find_in_audio(examination, settings)
    find_in_texts(examination, alphabet, settings)
    find_same_audio(examination, settings)
    find_same_texts(examination)
    find_same_speakers(examination, speakers)
    kinds = list(KINDS)
    findings = sorted(
        examination.findings,
        key=lambda each: (SEVERITIES.index(each.severity), kinds.index(each.kind), each.set, each.problem.line),
    )
    sets = []
    for number, each in enumerate(examination.sets):
        own = [finding for finding in findings if finding.set == number]
        sets.append(_figures(each, examination.formats, own, speakers[number]))
    known = None if alphabet is None or alphabet.of_bytes else set(''.join(alphabet.labels))
    listed = tuple(
        CharacterFigures(character, count, characters.first[character], known is None or character in known)
        for character, count in characters.counts.most_common()
    )
    unused = () if known is None else tuple(sorted(known - characters.counts.keys()))
    return Report(tuple(sets), listed, unused, tuple(findings))


def bad_rows(findings: Iterable[Finding], severities: Sequence[str]) -> set[int]:
    """The rows with findings so bad; those that cannot be read at all have no number."""
    return {finding.row for finding in findings if finding.row >= 0 and finding.severity in severities}


def as_json(report: Report) -> str:
    """Everything, for programs."""
    content: dict[str, Any] = {'version': JSON_VERSION, **dataclasses.asdict(report)}
    content['findings'] = [
        {
            'kind': finding.kind,
            'severity': finding.severity,
            'set': finding.problem.csv,
            'line': finding.problem.line or None,
            'audio': finding.problem.path or None,
            'message': finding.problem.message,
        }
        for finding in report.findings
    ]
    return json.dumps(content, ensure_ascii=False, indent=1) + '\n'


def _figures(each: DataSet, formats: Sequence[str], findings: Sequence[Finding], speakers: Counter[str]) -> SetFigures:
    heard = each.measured[each.heard]
    rates = characters_a_second(each)
    histograms = {
        'duration': histogram(heard['seconds'], 's'),
        'characters a second': histogram(rates[rates > 0], '/s'),
        'peak': histogram(_decibels(heard['peak']), 'dBFS'),
        'level of the speech': histogram(_decibels(heard['level']), 'dBFS'),
    }
    return SetFigures(
        path=each.path,
        rows=len(each.samples) + len(each.problems),
        usable=len(each.samples) - len(bad_rows(findings, (ERROR,))),
        seconds=float(heard['seconds'].sum()),
        characters=sum(len(sample.transcript) for sample in each.samples),
        sample_rates=_counts(Counter(map(str, heard['sample_rate'].tolist()))),
        channels=_counts(Counter(map(str, heard['channels'].tolist()))),
        formats=_counts(Counter(formats[number] for number in heard['format'].tolist())),
        speakers=_counts(speakers),
        findings=dict(Counter(finding.kind for finding in findings)),
        histograms={name: one for name, one in histograms.items() if one is not None},
    )


def histogram(values: npt.NDArray[np.float64], unit: str) -> Histogram | None:
    """Of `values` `[count]`; None where there are none."""
    if not len(values):
        return None
    least, median, most = (float(each) for each in np.quantile(values, (0, 0.5, 1)))
    wide = most - least > LEAST_RANGE * max(1, abs(most))
    counts, edges = np.histogram(values, BINS, (least, most) if wide else (least - 0.5, least + 0.5))
    return Histogram(unit, tuple(edges.tolist()), tuple(counts.tolist()), least, median, most)


def _decibels(levels: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    decibels: npt.NDArray[np.float64] = 20 * np.log10(np.maximum(levels.astype(np.float64), LEAST_LEVEL))
    return decibels


def _counts(counter: Counter[str]) -> dict[str, int]:
    return dict(counter.most_common())
