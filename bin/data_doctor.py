#!/usr/bin/env python3
"""Looks for what is wrong, and what is strange, about data sets.

    python bin/data_doctor.py my-data/train.csv my-data/dev.csv my-data/test.csv --alphabet_config_path alphabet.txt
    python bin/data_doctor.py my-data/all.csv --html report.html --fix my-data/usable.csv

Ends with status 0 when there is no error, 1 when there are some (with --strict, warnings count too), 2 when the
arguments or whole files are wrong, 130 when interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepspeech_training import log, storage
from deepspeech_training.config import UNICODE_NORMALIZATIONS, FeatureConfig
from deepspeech_training.doctor.examination import Examination, examine, read_sets
from deepspeech_training.doctor.fixing import fixed_paths, write_fixed
from deepspeech_training.doctor.html_report import as_html
from deepspeech_training.doctor.kinds import ERROR, WARNING
from deepspeech_training.doctor.report import as_json, diagnose
from deepspeech_training.doctor.settings import Settings
from deepspeech_training.doctor.text_report import as_text
from deepspeech_training.errors import DataError, FlagError, UserError
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.byte_alphabet import ByteAlphabet
from deepspeech_training.workers import cores

EXIT_PROBLEMS = 1
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    args = build_parser().parse_args(arguments)
    log.setup(1)
    try:
        return doctor(args)
    except UserError as error:
        log.error(str(error))
        return error.exit_status
    except KeyboardInterrupt:
        log.error('Interrupted')
        return EXIT_INTERRUPTED


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    settings = Settings()
    add(
        'data_set', nargs='+', help='CSV files, JSON lines, tar files or sample databases; train, dev and test together'
    )
    add('--alphabet_config_path', default='', metavar='FILE', help="the model's alphabet; without, all characters are")
    add('--bytes_output_mode', action='store_true', help='the model writes bytes of UTF-8')
    add('--unicode_normalization', choices=UNICODE_NORMALIZATIONS, default='NFC', help='as of DeepSpeech.py (NFC)')
    add('--audio_sample_rate', type=int, default=FeatureConfig.sample_rate, help="the model's, Hz (%(default)s)")
    add('--audio_channel', type=int, default=0, help='of files with several, from 1; 0: their mean (%(default)s)')
    add('--feature_win_len', type=int, default=FeatureConfig.window_ms, help='milliseconds (%(default)s)')
    add('--feature_win_step', type=int, default=FeatureConfig.step_ms, help='milliseconds (%(default)s)')
    add('--json', default='', metavar='FILE', help='write everything as JSON')
    add('--html', default='', metavar='FILE', help='write a page with plots')
    add(
        '--fix',
        action='append',
        default=[],
        metavar='OUT',
        help='write what is usable: a file, several times for several data sets, or a folder for all',
    )
    add('--strict', action='store_true', help='warnings count as errors do, for the status and for --fix')
    add('--outlier', type=float, default=settings.outlier, help='deviations from which speech is odd (%(default)s)')
    add('--max_seconds', type=float, default=settings.long_seconds, help='audio is long from here on (%(default)s)')
    add('--max_silence', type=float, default=settings.silence_seconds, help='seconds around the speech (%(default)s)')
    add('--shown', type=int, default=10, metavar='N', help='list so many findings of each kind (%(default)s)')
    add('--processes', type=int, default=cores(), help='that listen at once (%(default)s)')
    add('--noshow_progressbar', action='store_true', help='no progress bar')
    return parser


def doctor(args: argparse.Namespace) -> int:
    """Looks at everything, and writes what was asked for; returns the exit status."""
    check(args)
    fixed = fixed_paths(args.fix, args.data_set)
    outputs = [('json', args.json), ('html', args.html), *(('fix', path) for path in fixed)]
    for name, path in outputs:
        check_output(name, path, args)
    if same := next((path for _, path in outputs if path and [each for _, each in outputs].count(path) > 1), None):
        raise FlagError(f'{same}: two outputs would go there; name another file for one')
    alphabet = alphabet_of(args)
    settings = Settings(
        features=FeatureConfig(args.audio_sample_rate, args.feature_win_len, args.feature_win_step),
        outlier=args.outlier,
        long_seconds=args.max_seconds,
        silence_seconds=args.max_silence,
    )
    sets = read_sets(args.data_set, args.unicode_normalization)
    examination = examine(sets, args.processes, not args.noshow_progressbar, args.audio_channel)
    report = diagnose(examination, alphabet, settings)
    show(as_text(report, args.shown))
    write('json', args.json, lambda: as_json(report))
    write('html', args.html, lambda: as_html(report, max(args.shown, 200)))
    fix(examination, fixed, strict=args.strict)
    return EXIT_PROBLEMS if report.count(ERROR) or (args.strict and report.count(WARNING)) else 0


def alphabet_of(args: argparse.Namespace) -> Alphabet | None:
    """The model's, where it is given. Raises `DataError`."""
    if args.bytes_output_mode:
        return ByteAlphabet(normalization=args.unicode_normalization)
    if args.alphabet_config_path:
        return Alphabet.from_file(args.alphabet_config_path, args.unicode_normalization)
    return None


def check(args: argparse.Namespace) -> None:
    """Raises `FlagError` for values that cannot be."""
    for name in ('audio_sample_rate', 'feature_win_len', 'feature_win_step', 'processes'):
        if getattr(args, name) < 1:
            raise FlagError(f'--{name}={getattr(args, name)}: must be at least 1')
    for name in ('outlier', 'max_seconds', 'max_silence'):
        if not getattr(args, name) > 0:  # not NaN either
            raise FlagError(f'--{name}={getattr(args, name)}: must be more than 0')
    for name in ('shown', 'audio_channel'):
        if getattr(args, name) < 0:
            raise FlagError(f'--{name}={getattr(args, name)}: must be 0 or more')
    if args.bytes_output_mode and args.alphabet_config_path:
        raise FlagError('--alphabet_config_path and --bytes_output_mode: a model of bytes has no alphabet file')
    twice = next((path for path in args.data_set if args.data_set.count(path) > 1), None)
    if twice:
        raise FlagError(f'{twice}: is named twice')


def check_output(name: str, path: str, args: argparse.Namespace) -> None:
    """Raises `FlagError` where a file could not be written later on, or would replace an input."""
    if not path:
        return
    inputs = [*args.data_set, args.alphabet_config_path]
    if os.path.realpath(path) in map(os.path.realpath, filter(None, inputs)):
        raise FlagError(f'--{name}={path}: would replace an input; name another file')
    if storage.is_remote(path) and name == 'fix':
        return
    folder = os.path.dirname(path) or '.'
    if name == 'fix' and not os.path.lexists(folder) and args.fix[0].endswith('/'):
        make_folder(folder)
    if os.path.isdir(path):
        raise FlagError(f'--{name}={path}: is a folder; name a file in it')
    if not os.path.isdir(folder):
        raise FlagError(f'--{name}={path}: the folder {folder} does not exist')
    if not os.access(folder, os.W_OK):
        raise FlagError(f'--{name}={path}: nothing can be written into {folder}')


def make_folder(folder: str) -> None:
    try:
        os.mkdir(folder)
    except OSError as error:
        raise FlagError(f'--fix={folder}: cannot be made: {error.strerror}') from error


def show(text: str) -> None:
    """Prints the report, whatever names files have; when nobody reads it, the other outputs are still written."""
    try:
        sys.stdout.buffer.write(text.encode(errors='backslashreplace'))
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = open(os.devnull, 'w')  # noqa: SIM115 - Python flushes it at exit


def write(name: str, path: str, render: Callable[[], str]) -> None:
    """Writes a report, if it is wanted. Raises `DataError` where that fails."""
    if not path:
        return
    try:
        storage.write_whole(path, render().encode(errors='backslashreplace'))
    except OSError as error:
        raise DataError(f'--{name}={path}: cannot be written: {error.strerror}') from error
    log.info(f'Wrote {path}')


def fix(examination: Examination, paths: Sequence[str], *, strict: bool) -> None:
    """Writes what is usable of each set. Raises `DataError` at the end where some could not be written."""
    failures = []
    for number, path in enumerate(paths):
        try:
            fixed = write_fixed(examination, number, path, strict=strict)
        except DataError as error:
            failures.append(str(error))
            continue
        dropped = f'{fixed.dropped} dropped, listed in {fixed.list_path}' if fixed.dropped else 'none dropped'
        log.info(f'Wrote {path}: {fixed.kept} rows, {fixed.mended} of them mended; {dropped}')
    if failures:
        raise DataError('\n'.join(failures))


if __name__ == '__main__':
    sys.exit(main())
