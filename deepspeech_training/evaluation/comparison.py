"""Whether a model does better than another one on the same utterances."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from deepspeech_training.errors import DataError
from deepspeech_training.evaluation.bootstrap import CONFIDENCE, Bootstrap, Interval, difference
from deepspeech_training.evaluation.results import Results
from deepspeech_training.text.metrics import rate

Key = tuple[str, str]
"""What an utterance is known by: its file, and what was said."""


@dataclass(frozen=True)
class Baseline:
    """Word errors of another run, from its report in JSON."""

    path: str
    model: str
    errors: dict[Key, int]


@dataclass(frozen=True)
class Comparison:
    """Of the utterances of both runs."""

    baseline: Baseline
    utterances: int
    better: int  # utterances with fewer word errors than in the baseline
    worse: int
    wer: float
    baseline_wer: float
    change: Interval  # of the word error rate, negative where it is better

    def __str__(self) -> str:
        return (
            f'Compared with {self.baseline.model} ({self.baseline.path}) on {self.utterances} utterances - '
            f'WER: {self.wer:f}, was {self.baseline_wer:f}\n'
            f' - change {self.wer - self.baseline_wer:+.3f}, {CONFIDENCE:.0%} confidence: {self.change.low:+.3f} to '
            f'{self.change.high:+.3f}; {self.better} utterances better, {self.worse} worse'
        )


def read_baseline(path: str) -> Baseline:
    """Reads what `tables.write_json` wrote. Raises `DataError` for anything else."""
    try:
        with open(path, encoding='utf-8', errors='surrogateescape') as file:
            report = json.load(file)
        return Baseline(path, str(report['model']), dict(_errors(row) for row in report['utterances']))
    except OSError as error:
        raise DataError(f'--compare={path}: cannot be read: {error.strerror}') from None
    except (ValueError, KeyError, TypeError):
        raise DataError(f'--compare={path}: is no report that bin/evaluate.py --json has written') from None


def compare(results: Results, baseline: Baseline) -> Comparison:
    """Raises `DataError` when they have no utterance in common.

    Both have the same utterances in each replicate of the bootstrap, so that what makes an utterance hard for both
    does not count.
    """
    own, other = Bootstrap(), Bootstrap()
    better = worse = utterances = words = own_errors = other_errors = 0
    for number, result in enumerate(results.read(range(len(results)))):
        one = result.transcription
        errors = baseline.errors.get(_key(one.wav_filename, one.src))
        if errors is None:
            continue
        utterances += 1
        words += one.word_length
        own_errors += one.word_distance
        other_errors += errors
        better += one.word_distance < errors
        worse += one.word_distance > errors
        own.add(number, one.word_distance, one.word_length, 0, 0)
        other.add(number, errors, one.word_length, 0, 0)
    if not utterances:
        raise DataError(f'--compare={baseline.path}: has none of these utterances, by file and transcript')
    rates = rate(own_errors, words), rate(other_errors, words)
    return Comparison(baseline, utterances, better, worse, *rates, difference(own, other))


def _errors(row: dict[str, Any]) -> tuple[Key, int]:
    errors = int(row['substitutions']) + int(row['deletions']) + int(row['insertions'])
    return _key(row['wav_filename'], row['src']), errors


def _key(path: str, src: str) -> Key:
    return os.path.abspath(path), src
