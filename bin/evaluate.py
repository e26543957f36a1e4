#!/usr/bin/env python3
"""Tests a model: word and character error rates with their confidence, what is confused, and reports to look into.

    python bin/evaluate.py my-model/checkpoints test.csv --scorer_path kenlm.scorer --html report.html
    python bin/evaluate.py my-model/checkpoints clean.csv other.csv --json float.json --csv float.csv
    python bin/evaluate.py model/output_graph.tflite clean.csv other.csv --compare float.json

The model is a checkpoint or any export. Ends with status 0; 1 when some of the recordings could not be read; 2 when
the model, the CSV files or the arguments are wrong; 130 when interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')  # its messages are not about the model

from deepspeech_training import log
from deepspeech_training.config import DecodingConfig
from deepspeech_training.data.manifest import Sample
from deepspeech_training.decoding import decoder_for
from deepspeech_training.decoding.pool import decoding_pool
from deepspeech_training.errors import DataError, FlagError
from deepspeech_training.evaluation.comparison import compare, read_baseline
from deepspeech_training.evaluation.console import print_report, print_summary
from deepspeech_training.evaluation.reports import check_output, write_report
from deepspeech_training.evaluation.results import Results
from deepspeech_training.evaluation.running import open_chosen_model, read_sets, run_model
from deepspeech_training.evaluation.subject import PageLimits, Subject
from deepspeech_training.programs import EXIT_SOME_FAILED, exit_status
from deepspeech_training.runtimes import Runtime
from deepspeech_training.tool_arguments import (
    add_decoding_arguments,
    add_model_arguments,
    chosen_decoding,
    chosen_features,
)

MEGABYTE = 1024 * 1024
OUTPUTS = ('json', 'csv', 'html')


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    args = build_parser().parse_args(arguments)
    log.setup(args.log_level)
    return exit_status(lambda: evaluate(args))


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    text = (__doc__ or '').split('\n\n')
    parser = argparse.ArgumentParser(description=text[0], epilog=text[-1])
    add = parser.add_argument
    add('model', help='checkpoint (folder or files), .pb, .tflite, .onnx or SavedModel, told by their content')
    add('sets', nargs='+', metavar='set', help='test sets: CSV files, or any other format of data sets')
    add('--json', default='', metavar='FILE', help='write counts, rates and all transcripts')
    add('--csv', default='', metavar='FILE', help='write a row for each utterance')
    add('--html', default='', metavar='FILE', help='write a page with aligned words and the recordings')
    add('--compare', default='', metavar='FILE', help="a --json of another model: is this one's word error rate lower?")
    add('--html_limit', type=int, default=PageLimits.utterances, help='utterances in it, the worst ones; 0: all')
    add('--html_audio', type=int, default=PageLimits.audio_bytes // MEGABYTE, help='megabytes of recordings in it')
    add('--report_count', type=int, default=5, help='best, median and worst utterances, and confusions, to print')
    add('--limit', type=int, default=0, help='utterances of each set; 0: all')
    add('--audio_channel', type=int, default=0, help='of recordings with several, counted from 1; 0: their mean')
    add('--processes', type=int, default=0, help='that decode while the model computes; 0: one a core')
    add('--threads', type=int, default=0, help='of the model; 0: one a core')
    add_decoding_arguments(parser)
    add_model_arguments(parser)
    add('--noshow_progressbar', action='store_true', help='no progress bar')
    add('--log_level', type=int, choices=range(4), default=1, help='0 debug, 1 info, 2 warnings, 3 errors')
    return parser


def evaluate(args: argparse.Namespace) -> int:
    """Tests, prints and writes; returns the exit status."""
    check(args)
    decoding, features = chosen_decoding(args), chosen_features(args)
    baseline = read_baseline(args.compare) if args.compare else None
    model = open_chosen_model(args, features)
    with model:
        decoding = replace(decoding, beam_width=decoding.beam_width or model.beam_width)
        sets = read_sets(args.sets, model.alphabet, args.limit)
        with Results(list(sets)) as results:
            failed = transcribe(args, model, decoding, sets, results)
            limits = PageLimits(args.html_limit, args.html_audio * MEGABYTE)
            report(args, results, Subject.of(args.model, decoding, sets, limits))
            if baseline:
                print(compare(results, baseline))
    return EXIT_SOME_FAILED if failed else 0


def check(args: argparse.Namespace) -> None:
    """Raises `FlagError` for values that cannot be, and for files that cannot be written."""
    for name in ('audio_channel', 'html_limit', 'html_audio', 'report_count', 'limit', 'processes', 'threads'):
        if getattr(args, name) < 0:
            raise FlagError(f'--{name}={getattr(args, name)}: must be at least 0')
    for name in OUTPUTS:
        if getattr(args, name):
            check_output(f'--{name}', getattr(args, name))


def transcribe(
    args: argparse.Namespace,
    model: Runtime,
    decoding: DecodingConfig,
    sets: Mapping[str, Sequence[Sample]],
    results: Results,
) -> int:
    """Fills `results`; returns how many recordings could not be read. Raises `DataError` when there is no other."""
    total = sum(map(len, sets.values()))
    decoder = decoder_for(decoding, model.alphabet)
    try:
        with (
            decoding_pool(decoding, model.alphabet, decoder, total, args.processes) as pool,
            log.progress('Testing', total, not args.noshow_progressbar) as bar,
        ):
            failed = run_model(model, sets, pool, results, bar.advance, args.audio_channel)
    finally:
        decoder.close()
    if failed == total:
        raise DataError('none of the recordings can be read')
    if failed:
        log.error(f'{failed} of {total} recordings cannot be read, and are not counted')
    return failed


def report(args: argparse.Namespace, results: Results, subject: Subject) -> None:
    """Writes the files and prints the results."""
    for name in OUTPUTS:
        if path := getattr(args, name):
            write_report(f'--{name}', f'.{name}', path, results, subject)
    for number in range(len(results.summaries)):
        print_report(results, number, args.report_count)
    if len(results.summaries) > 1:
        print_summary(results.overall())


if __name__ == '__main__':
    sys.exit(main())
