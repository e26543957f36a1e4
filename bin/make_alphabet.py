#!/usr/bin/env python3
"""Makes an alphabet file from the transcripts of CSV files.

    python bin/make_alphabet.py my-data/train.csv my-data/dev.csv --output my-data/alphabet.txt
    python bin/make_alphabet.py my-data/train.csv --rare 100

Ends with status 2 when a CSV file cannot be read or the output is there already.
"""

from __future__ import annotations

import argparse
import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepspeech_training import log
from deepspeech_training.config import UNICODE_NORMALIZATIONS
from deepspeech_training.data.formats import read_data_set
from deepspeech_training.errors import DataError
from deepspeech_training.programs import exit_status
from deepspeech_training.text.alphabet import MAX_LABELS, describe_character, normalize


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    args = build_parser().parse_args(arguments)
    log.setup(1)
    return exit_status(lambda: make_alphabet(args))


def make_alphabet(args: argparse.Namespace) -> None:
    """Counts and writes. Raises `DataError`."""
    counts, first = count_characters(args.csv, args.unicode_normalization)
    text = alphabet_file(counts, first, args.rare, args.unicode_normalization)
    if args.output:
        write(args.output, text, overwrite=args.overwrite)
        log.info(f'{args.output}: {len(counts)} characters')
    else:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument('csv', nargs='+', help='CSV files with a column transcript')
    parser.add_argument('--output', default='', metavar='FILE', help='the alphabet file; standard output without it')
    parser.add_argument('--overwrite', action='store_true', help='replace --output if it is there already')
    parser.add_argument(
        '--rare', type=int, default=10, metavar='N', help='note characters that occur fewer than N times (default: 10)'
    )
    parser.add_argument(
        '--unicode_normalization',
        choices=UNICODE_NORMALIZATIONS,
        default='NFC',
        help='Unicode normal form; give the same to DeepSpeech.py (default: NFC)',
    )
    return parser


def count_characters(paths: Sequence[str], form: str) -> tuple[Counter[str], dict[str, str]]:
    """How often each character occurs in the transcripts, and where first, as in `train.csv:12`.

    Rows that cannot be read are told and left out. Raises `DataError` for files that cannot be read, and when there
    are no characters, or more than an alphabet can have.
    """
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for path in paths:
        samples, problems = read_data_set(path)
        for problem in problems:
            log.warn(f'left out: {problem}')
        for sample in samples:
            text = normalize(sample.transcript, form)
            counts.update(text)
            for character in text:
                first.setdefault(character, sample.place)
    if not counts:
        raise DataError(f'{", ".join(paths)}: no transcript has a character')
    if len(counts) > MAX_LABELS:
        raise DataError(f'{", ".join(paths)}: {len(counts)} different characters; an alphabet has {MAX_LABELS} at most')
    return counts, first


def alphabet_file(counts: Counter[str], first: dict[str, str], rare: int, form: str) -> str:
    """The content of the file: characters in the order of their code points, those that are rare with a comment."""
    lines = [
        f'# {len(counts)} characters from {counts.total()}, in the Unicode normal form {form}.',
        '# The order is part of every model that is trained with this file.',
    ]
    for character in sorted(counts):
        count = counts[character]
        note = suspicion(character)
        if count < rare or note:
            times = 'once' if count == 1 else f'{count} times'
            name = unicodedata.name(character, '')
            told = ', '.join(filter(None, [describe_character(character), name, times, note]))
            lines.append(f'# {told}, first in {printable(first[character])}')
        lines.append('\\#' if character == '#' else character)
    return '\n'.join(lines) + '\n'


def printable(text: str) -> str:
    """`text` on one line, whatever a file is called."""
    return ''.join(c if c.isprintable() else '?' for c in text.encode(errors='replace').decode())


def suspicion(character: str) -> str:
    """Why a character is probably a mistake, however often it occurs; '' where it is not."""
    if character.isspace() and character != ' ':
        return 'white space that is no space'
    if not character.isprintable() and character != ' ':
        return 'cannot be seen'
    return ''


def write(path: str, text: str, *, overwrite: bool) -> None:
    """Raises `DataError` when the file is there and may not be replaced, or cannot be written."""
    try:
        with open(path, 'w' if overwrite else 'x', encoding='utf-8', newline='') as file:
            file.write(text)
    except FileExistsError:
        raise DataError(f'--output={path}: is there already; --overwrite replaces it') from None
    except OSError as error:
        raise DataError(f'--output={path}: cannot be written: {error.strerror}') from error


if __name__ == '__main__':
    sys.exit(main())
