"""What is wrong with the data of a run, and how it is told."""

from __future__ import annotations

import contextlib
import csv
import io
import os
from collections import Counter
from collections.abc import Sequence

from deepspeech_training import log, storage
from deepspeech_training.data.manifest import Problem, Sample
from deepspeech_training.errors import DataError
from deepspeech_training.text.alphabet import Alphabet, describe_character, normalize

SHOWN = 20  # of a list; the rest is counted
SKIPPED_FILE = 'skipped_samples.csv'


class Findings:
    """Everything found in the data sets of a run, together."""

    def __init__(self, csv_files: Sequence[str], alphabet: Alphabet) -> None:
        self.csv_errors: list[str] = []  # of data sets that cannot be used at all
        self.row_count = 0  # of all data sets
        self._order = {path: number for number, path in enumerate(csv_files)}
        self._alphabet = alphabet
        self._other_forms = {
            form: Alphabet(dict.fromkeys(normalize(label, form) for label in alphabet.labels))
            for form in ('NFC', 'NFD')
            if form != alphabet.normalization and not alphabet.of_bytes
        }
        self._spelled_in: Counter[str] = Counter()  # transcripts with wrong characters, by the form that would help
        self._problems: list[Problem] = []  # of single rows, without those about characters
        self._wrong_characters: list[Problem] = []
        self._characters: dict[str, tuple[int, str]] = {}  # how often, and first where

    def add(self, problem: Problem) -> None:
        """A row that cannot be used."""
        self._problems.append(problem)

    def add_characters(self, sample: Sample, unknown: Sequence[str]) -> None:
        """A row with characters that are not in the alphabet, each as often as it occurs."""
        for character in unknown:
            count, first = self._characters.get(character, (0, sample.place))
            self._characters[character] = count + 1, first
        for form, alphabet in self._other_forms.items():
            self._spelled_in[form] += not alphabet.unknown(normalize(sample.transcript, form))
        names = ', '.join(map(describe_character, dict.fromkeys(unknown)))
        message = f'the transcript has characters that are not in the alphabet: {names}'
        self._wrong_characters.append(sample.problem(message))

    def bad_rows(self) -> list[Problem]:
        """Every problem of a row, in the order of the files; a row may have several."""
        return self._in_order([*self._problems, *self._wrong_characters])

    def bad_row_count(self) -> int:
        return len({(problem.csv, problem.line) for problem in [*self._problems, *self._wrong_characters]})

    def report(self) -> str:
        """All of it, as the message of the error that ends the program."""
        parts = [self.csv_report()] if self.csv_errors else []
        if self._problems:
            parts += _listed('problem', 'with rows and audio files', [str(p) for p in self._in_order(self._problems)])
        if self._characters:
            what = (
                f'not in the alphabet {self._alphabet.path!r}, in {_counted(len(self._wrong_characters), "transcript")}'
            )
            by_count = sorted(self._characters.items(), key=lambda item: -item[1][0])
            texts = [f'{describe_character(c)}: {_times(count)}, first in {first}' for c, (count, first) in by_count]
            parts += _listed('character', what, texts)
            parts += self._other_form()
        if bad := self.bad_row_count():
            of_letters = self._characters and not self._alphabet.of_bytes
            other_alphabet = 'choose another alphabet with --alphabet_config_path, ' if of_letters else ''
            way_out = f'Correct them, {other_alphabet}or leave these rows out with --on_bad_sample skip'
            parts.append(f'{bad} of {self.row_count} rows cannot be used. {way_out}')
        return '\n'.join(parts)

    def _other_form(self) -> list[str]:
        """A way out where the alphabet spells transcripts that have another Unicode normal form."""
        form, count = max(self._spelled_in.items(), key=lambda item: item[1], default=('', 0))
        if not count:
            return []
        return [f'With --unicode_normalization {form} the alphabet spells {count} of these transcripts']

    def csv_report(self) -> str:
        """What is wrong with whole data sets."""
        return '\n'.join(_listed('data set', 'that cannot be used', self.csv_errors))

    def _in_order(self, problems: Sequence[Problem]) -> list[Problem]:
        return sorted(problems, key=lambda problem: (self._order[problem.csv], problem.line))


def tell_skipped(findings: Findings, save_dir: str) -> None:
    """Says which rows are left out: the first in the log, all in `skipped_samples.csv` of `save_dir`, if given.

    Raises `DataError` where that file cannot be written.
    """
    bad = findings.bad_rows()
    if bad:
        log.warn(f'{findings.bad_row_count()} of {findings.row_count} rows cannot be used and are left out')
    if save_dir:
        path = os.path.join(save_dir, SKIPPED_FILE)
        try:
            _write_list(path, bad)
        except OSError as error:
            raise DataError(f'{path}: cannot be written: {error.strerror}; name another checkpoint folder') from error
        if bad:
            log.warn(f'They are listed in {path}; the first is {bad[0]}')
        return
    for problem in bad[:SHOWN]:
        log.warn(f'  {problem}')
    if len(bad) > SHOWN:
        log.warn(f'  and {len(bad) - SHOWN} more; with a checkpoint directory, {SKIPPED_FILE} in it lists them all')


def _listed(noun: str, what: str, texts: Sequence[str]) -> list[str]:
    """A headline with the count, the first texts, and how many more there are."""
    lines = [f'{_counted(len(texts), noun)} {what}:', *(f'  {text}' for text in texts[:SHOWN])]
    if len(texts) > SHOWN:
        lines.append(f'  and {len(texts) - SHOWN} more')
    return lines


def _counted(count: int, noun: str) -> str:
    return f'{count} {noun}' if count == 1 else f'{count} {noun}s'


def _times(count: int) -> str:
    return 'once' if count == 1 else f'{count} times'


def _write_list(path: str, problems: Sequence[Problem]) -> None:
    """Writes the list of skipped rows; without any, removes that of an earlier run."""
    if not problems:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator='\n')
    writer.writerow(['csv', 'line', 'wav_filename', 'reason'])
    writer.writerows([problem.csv, problem.line, problem.path, problem.message] for problem in problems)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    storage.write_whole(path, text.getvalue().encode(errors='surrogateescape'))
