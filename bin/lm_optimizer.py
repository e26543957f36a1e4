#!/usr/bin/env python3
"""Searches for the weights of a language model with which the fewest words of a dev set are wrong.

    python bin/lm_optimizer.py my-model/checkpoints dev.csv --scorer_path kenlm.scorer --beam_width 100 \\
        --study weights.sqlite --processes 8 --n_trials 300 --write_scorer tuned.scorer

The model, a checkpoint or any export, hears the set once. With --study the same command goes on where it was
interrupted; several may work on one file. Ends with status 0; 1 when some of the recordings could not be read; 2 when
the model, the scorer, the data or the arguments are wrong; 130 when interrupted.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')  # its messages are not about weights

from deepspeech_training import log
from deepspeech_training.config import DecodingConfig
from deepspeech_training.data.manifest import Sample
from deepspeech_training.decoding import Scorer, ScorerOptions
from deepspeech_training.decoding.scorer_file import place_of_weights, read_scorer_file
from deepspeech_training.decoding.scorer_package import write_weights
from deepspeech_training.errors import FlagError
from deepspeech_training.evaluation.reports import check_output
from deepspeech_training.evaluation.running import open_chosen_model, read_sets
from deepspeech_training.flags.table import FLAGS
from deepspeech_training.programs import EXIT_SOME_FAILED, exit_status
from deepspeech_training.runtimes import Runtime
from deepspeech_training.tool_arguments import (
    add_decoding_arguments,
    add_model_arguments,
    chosen_decoding,
    chosen_features,
)
from deepspeech_training.tuning.counting import Counters, Settings, lengths
from deepspeech_training.tuning.outputs import Outputs, compute_outputs, digest_of, kept_outputs, key_of
from deepspeech_training.tuning.report import report
from deepspeech_training.tuning.search import OWN_WEIGHTS, best_of, errors_of, measure_baselines, search
from deepspeech_training.tuning.study import Space, Study, Trial


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    args = build_parser().parse_args(arguments)
    log.setup(args.log_level)
    interrupted = 'Interrupted' + (f'; the same command goes on with {args.study}' if args.study else '')
    return exit_status(lambda: optimize(args), interrupted)


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    text = (__doc__ or '').split('\n\n')
    parser = argparse.ArgumentParser(description=text[0], epilog=text[-1], allow_abbrev=False)
    add = parser.add_argument
    add('model', help='checkpoint (folder or files), .pb, .tflite, .onnx or SavedModel, told by their content')
    add('sets', nargs='+', metavar='set', help='dev sets: CSV files, or any other format of data sets')
    add('--lm_alpha_max', type=float, default=FLAGS['lm_alpha_max'].default, help='largest weight that is tried')
    add('--lm_beta_max', type=float, default=FLAGS['lm_beta_max'].default, help='largest reward for a word')
    add('--n_trials', type=int, default=FLAGS['n_trials'].default, help='in total, with those of earlier starts')
    add('--objective', choices=('wer', 'cer'), default='wer', help='what is to be small')
    add('--search_beam', action='store_true', help='search beam widths up to --beam_width, too')
    add('--search_cutoffs', action='store_true', help='search cutoffs up to --cutoff_prob and --cutoff_top_n, too')
    add('--study', default='', metavar='FILE', help='SQLite file of all trials, by which the search can go on')
    add('--processes', type=int, default=1, help='trials at a time')
    add('--write_scorer', default='', metavar='FILE', help='write the .scorer with the best weights')
    add('--update_scorer', action='store_true', help='write the best weights into --scorer_path itself')
    add('--limit', type=int, default=0, help='utterances of each set; 0: all')
    add('--audio_channel', type=int, default=0, help='of recordings with several, counted from 1; 0: their mean')
    add('--threads', type=int, default=0, help='of the model; 0: one a core')
    add_decoding_arguments(parser)
    add_model_arguments(parser)
    add('--noshow_progressbar', action='store_true', help='no progress bar')
    add('--log_level', type=int, choices=range(4), default=1, help='0 debug, 1 info, 2 warnings, 3 errors')
    return parser


def optimize(args: argparse.Namespace) -> int:
    """Searches, prints and writes; returns the exit status."""
    check(args)
    decoding, features = chosen_decoding(args), chosen_features(args)
    read_scorer_file(args.scorer_path)
    if args.write_scorer or args.update_scorer:
        check_output('--write_scorer', args.write_scorer or args.scorer_path)
        place_of_weights(args.scorer_path)
    model = open_chosen_model(args, features)
    with model, tempfile.TemporaryDirectory() as folder:
        decoding = replace(decoding, beam_width=decoding.beam_width or model.beam_width)
        return tune(args, model, decoding, f'{args.study or os.path.join(folder, "study")}.logits')


def check(args: argparse.Namespace) -> None:
    """Raises `FlagError` for values that cannot be."""
    for name, least in (('n_trials', 1), ('processes', 1), ('limit', 0), ('audio_channel', 0), ('threads', 0)):
        if getattr(args, name) < least:
            raise FlagError(f'--{name}={getattr(args, name)}: must be at least {least}')
    for name in ('lm_alpha_max', 'lm_beta_max'):
        if not 0 < getattr(args, name) < math.inf:
            raise FlagError(f'--{name}={getattr(args, name)}: must be a number above 0')
    if not args.scorer_path:
        raise FlagError('--scorer_path: give the language model whose weights are wanted')
    if args.write_scorer and args.update_scorer:
        raise FlagError('--write_scorer and --update_scorer: give one of them')
    if os.path.isdir(args.study):
        raise FlagError(f'--study={args.study}: is a folder; give the name of a file')


def tune(args: argparse.Namespace, model: Runtime, decoding: DecodingConfig, kept: str) -> int:
    """The whole search; what the model heard is kept in the file `kept`."""
    scorer = Scorer(
        ScorerOptions(decoding.scorer_path, decoding.lm_alpha, decoding.lm_beta, dict(decoding.hot_words)),
        model.alphabet,
    )
    own = Settings(scorer.alpha, scorer.beta, decoding.beam_width, decoding.cutoff_prob, decoding.cutoff_top_n)
    sets = read_sets(args.sets, model.alphabet, args.limit)
    key = key_of(model, sets, args.audio_channel)
    space = Space(
        args.lm_alpha_max, args.lm_beta_max, own, args.search_beam, args.search_cutoffs, model.alphabet.size + 1
    )
    by_characters = args.objective == 'cer'
    study = Study(args.study, space, facts(args, own, key), by_characters, args.processes > 1)
    outputs = heard(args, model, sets, key, kept)
    processes = min(args.processes, args.n_trials)
    with Counters(outputs, decoding, model.alphabet, processes) as counters:
        baselines = measure_baselines(study, counters, own)
        said = lengths(outputs.transcripts)
        try:
            run(args, study, counters, by_characters, baselines[OWN_WEIGHTS], said)
        finally:
            best = best_of(study, baselines[OWN_WEIGHTS], by_characters)
            print(report(baselines, best, study.done, said, space), flush=True)
    keep(args, best)
    if outputs.failed:
        log.error(f'{outputs.failed} recordings cannot be read, and are not counted')
    return EXIT_SOME_FAILED if outputs.failed else 0


def facts(args: argparse.Namespace, own: Settings, key: str) -> dict[str, Any]:
    """What a study is about."""
    weights = slice(0, 0)
    if read_scorer_file(args.scorer_path).automaton is not None:
        place = place_of_weights(args.scorer_path)
        weights = slice(place, place + 16)  # which --update_scorer changes
    return {
        'model, data or transcripts': key[:16],
        '--scorer_path': digest_of(args.scorer_path, skip=weights).hex()[:16],
        '--objective': args.objective,
        '--beam_width': own.beam_width,
        '--cutoff_prob': own.cutoff_prob,
        '--cutoff_top_n': own.cutoff_top_n,
        '--hot_words': args.hot_words,
        '--lm_alpha_max': args.lm_alpha_max,
        '--lm_beta_max': args.lm_beta_max,
        '--search_beam': args.search_beam,
        '--search_cutoffs': args.search_cutoffs,
    }


def heard(
    args: argparse.Namespace, model: Runtime, sets: Mapping[str, Sequence[Sample]], key: str, path: str
) -> Outputs:
    """The model's output for the sets, as kept at `path`, or computed."""
    outputs = kept_outputs(path, key)
    if outputs is not None:
        log.info(f'What the model hears is in {path} already: {len(outputs)} utterances')
        return outputs
    with log.progress('Listening', sum(map(len, sets.values())), not args.noshow_progressbar) as bar:
        return compute_outputs(path, key, model, sets, args.audio_channel, bar.advance)


def run(
    args: argparse.Namespace,
    study: Study,
    counters: Counters,
    by_characters: bool,
    own: Trial,
    said: tuple[int, int],
) -> None:
    """The trials that are left."""
    total = max(said[by_characters], 1)
    done = study.done
    if done >= args.n_trials:
        log.info(f'{done} trials are done already; a larger --n_trials goes on')
        return
    label = 'Searching' + (f', after {done} trials' if done else '')
    with log.progress(label, args.n_trials - done, not args.noshow_progressbar) as bar:

        def advance(trials: int, least: int) -> None:
            bar.advance(trials, **{f'best {args.objective.upper()}': f'{100 * least / total:.2f}%'})

        advance(0, errors_of(best_of(study, own, by_characters).errors, by_characters))
        search(study, counters, args.n_trials, by_characters, own, advance)


def keep(args: argparse.Namespace, best: Trial) -> None:
    """Writes the best weights into a scorer, if asked to."""
    path = args.write_scorer or (args.scorer_path if args.update_scorer else '')
    alpha, beta = best.settings.alpha, best.settings.beta
    if path and alpha is not None and beta is not None:
        write_weights(args.scorer_path, path, alpha, beta)
        log.info(f'Wrote {path} with alpha {alpha} and beta {beta}')


if __name__ == '__main__':
    sys.exit(main())
