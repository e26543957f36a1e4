"""Findings about transcripts, and how they go with their audio."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deepspeech_training.data.checks import length_problem
from deepspeech_training.doctor.examination import DataSet, Examination
from deepspeech_training.doctor.settings import Settings
from deepspeech_training.doctor.sounds import facts_of
from deepspeech_training.text.alphabet import Alphabet, describe_character

STRAY_SPACES = re.compile(r'^ | {2}| $')
LEAST_ROWS = 20  # from which the usual number of characters a second is known
LEAST_SPREAD = 0.1  # of its logarithm: where all say the same sentence, small differences are none
MAD_TO_DEVIATION = 1.4826  # of a normal distribution


@dataclass(frozen=True)
class Characters:
    """The characters of all transcripts."""

    counts: Counter[str]
    first: dict[str, str]  # where each occurs first, as in 'train.csv:12'


def tidy(transcript: str) -> str:
    """Without spaces at the ends, and with single ones inside."""
    return re.sub(' +', ' ', transcript).strip(' ')


def count_characters(examination: Examination) -> Characters:
    """Those of all rows that can be read, as they are written."""
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for number, each in enumerate(examination.sets):
        for row, sample in enumerate(each.samples):
            counts.update(sample.transcript)
            for character in set(sample.transcript):
                if character not in first:
                    first[character] = examination.place(number, row)
    return Characters(counts, first)


def find_in_texts(examination: Examination, alphabet: Alphabet | None, settings: Settings) -> None:
    """Adds what is wrong or strange about transcripts.

    `alphabet`: that of the model; without one, every character counts as a label of its own.
    """
    for number, each in enumerate(examination.sets):
        labels = alphabet or _alphabet_of(each)
        unusable = {finding.row for finding in examination.findings if finding.set == number}
        for row in each.other_form:
            message = f'was normalized to {each.samples[row].transcript!r}'
            examination.add('normal form', number, row, message)
        for row, transcript in enumerate(sample.transcript for sample in each.samples):
            if not transcript.strip():
                examination.add('empty', number, row, 'the transcript is empty')
                continue
            _find_odd_characters(examination, number, row, transcript)
            if labels is None:
                continue
            if unknown := labels.unknown(transcript):
                names = ', '.join(map(describe_character, dict.fromkeys(unknown)))
                examination.add('alphabet', number, row, f'{names} in {transcript!r}')
            elif each.heard[row] and row not in unusable:
                facts = facts_of(each.measured[row])
                if problem := length_problem(transcript, facts, settings.features, labels):
                    examination.add('length', number, row, problem)
        _find_cases(examination, number, [sample.transcript for sample in each.samples])
        _find_rates_of_speech(examination, number, each, settings)


def _alphabet_of(each: DataSet) -> Alphabet | None:
    characters = sorted(set().union(*(sample.transcript for sample in each.samples)))
    return Alphabet(characters) if characters else None


def _find_odd_characters(examination: Examination, number: int, row: int, transcript: str) -> None:
    if STRAY_SPACES.search(transcript):
        examination.add('spaces', number, row, f'spaces at an end, or several in a row: {transcript!r}')
    if transcript.isascii() and transcript.isprintable() and not any(map(str.isdigit, transcript)):
        return
    odd = [each for each in dict.fromkeys(transcript) if each != ' ' and (each.isspace() or not each.isprintable())]
    if odd:
        examination.add('invisible', number, row, f'{", ".join(map(describe_character, odd))} in {transcript!r}')
    if any(map(str.isdigit, transcript)):
        examination.add('digits', number, row, f'has digits: {transcript!r}')


def _find_cases(examination: Examination, number: int, transcripts: Sequence[str]) -> None:
    upper = sum(text != text.lower() for text in transcripts)
    lower = sum(text != text.upper() for text in transcripts)
    if upper and lower:
        message = f'{upper} of its transcripts have capitals, {lower} have small letters'
        examination.add('case', number, -1, message)


def characters_a_second(each: DataSet) -> npt.NDArray[np.float64]:
    """Of each row `[samples]`; 0 where there is no transcript or no audio."""
    lengths = np.fromiter((len(sample.transcript.strip()) for sample in each.samples), np.float64, len(each.samples))
    seconds = each.measured['seconds']
    return np.divide(lengths, seconds, out=np.zeros(len(lengths)), where=each.heard & (seconds > 0))


def _find_rates_of_speech(examination: Examination, number: int, each: DataSet, settings: Settings) -> None:
    """Outliers by the median absolute deviation, of the logarithm, since twice as fast is as odd as half as fast."""
    rates = characters_a_second(each)
    rows = np.flatnonzero(rates)
    if len(rows) < LEAST_ROWS:
        return
    values = np.log(rates[rows])
    median = np.median(values)
    spread = max(MAD_TO_DEVIATION * float(np.median(np.abs(values - median))), LEAST_SPREAD)
    deviations = (values - median) / spread
    for row, deviation in zip(rows.tolist(), deviations.tolist(), strict=True):
        if abs(deviation) > settings.outlier:
            sample = each.samples[row]
            message = (
                f'{rates[row]:.1f} characters a second, the median of the set is {np.exp(median):.1f}: '
                f'{len(sample.transcript.strip())} characters in {each.measured["seconds"][row]:.2f} s: '
                f'{sample.transcript!r}'
            )
            examination.add('fast' if deviation > 0 else 'slow', number, row, message)
