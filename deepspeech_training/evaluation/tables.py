"""Results as JSON and CSV."""

from __future__ import annotations

import csv
import json
import math
from typing import IO, Any

from deepspeech_training.evaluation.bootstrap import CONFIDENCE, Interval
from deepspeech_training.evaluation.confusions import most_frequent
from deepspeech_training.evaluation.results import Result, Results
from deepspeech_training.evaluation.subject import Subject
from deepspeech_training.evaluation.summary import Summary

CONFUSIONS = 100  # of each kind in a report

COLUMNS = (
    *('set', 'wav_filename', 'src', 'res', 'wer', 'word_length', 'substitutions', 'deletions', 'insertions'),
    *('cer', 'char_distance', 'char_length', 'loss'),
)


def write_json(file: IO[str], results: Results, subject: Subject) -> None:
    """One object: the settings of the run, the sets, all of them together, and each utterance, the worst first."""
    head = {
        **subject.settings,
        'confidence': CONFIDENCE,
        'sets': [summary_as_json(summary) for summary in results.summaries],
        'overall': summary_as_json(results.overall()),
    }
    file.write(json.dumps(head, ensure_ascii=False, indent=1)[:-2])
    file.write(',\n "utterances": [')
    for number, result in enumerate(results.read(results.worst_first())):
        file.write(f'{"," if number else ""}\n  {json.dumps(_fields(result), ensure_ascii=False)}')
    file.write('\n ]\n}\n')


def write_csv(file: IO[str], results: Results) -> None:
    """A row for each utterance, the worst first."""
    writer = csv.DictWriter(file, COLUMNS, lineterminator='\n')
    writer.writeheader()
    writer.writerows(_fields(result) for result in results.read(results.worst_first()))


def write_deepspeech_json(file: IO[str], results: Results) -> None:
    """A list of the utterances, the worst first, with the fields of DeepSpeech's test report."""
    file.write('[')
    for number, result in enumerate(results.read(results.worst_first())):
        one = result.transcription
        fields = {
            'wav_filename': one.wav_filename,
            'src': one.src,
            'res': one.res,
            'loss': one.loss,
            'char_distance': one.char_distance,
            'char_length': one.char_length,
            'word_distance': one.word_distance,
            'word_length': one.word_length,
            'cer': one.cer,
            'wer': one.wer,
        }
        text = json.dumps(fields, ensure_ascii=False, indent=2).replace('\n', '\n  ')
        file.write(f'{"," if number else ""}\n  {text}')
    file.write('\n]')


def summary_as_json(summary: Summary) -> dict[str, Any]:
    """Counts, rates with their intervals, and the most frequent confusions."""
    confusions = summary.confusions
    return {
        'name': summary.name,
        'utterances': summary.utterances,
        'wrong_utterances': summary.wrong_utterances,
        'wer': summary.wer,
        'wer_interval': _bounds(summary.bootstrap.wer()),
        'word_length': summary.words,
        'substitutions': summary.substitutions,
        'deletions': summary.deletions,
        'insertions': summary.insertions,
        'cer': summary.cer,
        'cer_interval': _bounds(summary.bootstrap.cer()),
        'char_distance': summary.char_distance,
        'char_length': summary.characters,
        'loss': _number(summary.loss),
        'substituted': [
            {'said': said, 'heard': heard, 'count': count}
            for (said, heard), count in most_frequent(confusions.substitutions, CONFUSIONS)
        ],
        'deleted': [{'said': said, 'count': count} for said, count in most_frequent(confusions.deletions, CONFUSIONS)],
        'inserted': [
            {'heard': heard, 'count': count} for heard, count in most_frequent(confusions.insertions, CONFUSIONS)
        ],
    }


def _fields(result: Result) -> dict[str, Any]:
    one = result.transcription
    values = (
        *(result.set_name, one.wav_filename, one.src, one.res),
        *(one.wer, one.word_length, one.substitutions, one.deletions, one.insertions),
        *(one.cer, one.char_distance, one.char_length, _number(one.loss)),
    )
    return dict(zip(COLUMNS, values, strict=True))


def _bounds(interval: Interval) -> list[float]:
    return [interval.low, interval.high]


def _number(value: float) -> float | None:
    """JSON has nothing that is not a number."""
    return None if math.isnan(value) else value
