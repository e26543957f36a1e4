#!/usr/bin/env python3
"""Makes data sets of data sets: converts, merges, samples, splits, augments.

    python bin/data_set_tool.py train.csv --output train.sdb
    python bin/data_set_tool.py first.csv second.jsonl --output 'all-{000..015}.tar'
    python bin/data_set_tool.py all.csv --split rest,10%,500 --output train.csv --output dev.csv --output test.csv
    python bin/data_set_tool.py train.csv --sample 20% --augment 'reverb[p=0.5]' --copies 2 --output more.csv

Formats go by the suffix: .csv, .jsonl, .sdb, .tar. Ends with status 0, 2 when something is wrong, 130 when interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepspeech_training import log
from deepspeech_training.config import ON_BAD_SAMPLE
from deepspeech_training.errors import FlagError
from deepspeech_training.programs import exit_status
from deepspeech_training.set_tool.conversion import FORMATS, Conversion, check_augmentations
from deepspeech_training.set_tool.job import Job, check_job, run
from deepspeech_training.set_tool.splitting import WAYS, parse_amount, parse_parts
from deepspeech_training.workers import cores


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    args = build_parser().parse_args(arguments)
    log.setup(1)
    return exit_status(lambda: do(args))


def do(args: argparse.Namespace) -> None:
    """Whatever the arguments say."""
    job = job_of(args)
    check_job(job)
    for line in run(job):
        print(line)


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add('source', nargs='+', help='data sets in any format, merged in this order')
    add(
        '--output',
        action='append',
        required=True,
        help='file, or tar files as all-{000..015}.tar; with --split several',
    )
    add('--overwrite', action='store_true', help='replace an --output that is there already')
    add('--unlabeled', action='store_true', help='transcripts may be missing')
    add('--on_bad_sample', choices=ON_BAD_SAMPLE, default='error', help='what cannot be used (%(default)s)')
    add('--sample', default='', metavar='N|N%', help='so many utterances, drawn at random')
    add('--split', default='', metavar='PART,PART', help='sizes: N, N%% or rest, as rest,10%%,500')
    add('--split_by', choices=WAYS, default='auto', help='auto: by speaker where all, and enough, are known')
    add('--audio_format', choices=list(FORMATS), help='convert the audio (wav, if there is another reason to)')
    add('--audio_rate', type=int, default=0, metavar='HZ', help='convert to this sample rate')
    add('--audio_channel', type=int, default=0, metavar='N', help='pick one of several, from 1; 0: their mean')
    add('--augment', action='append', default=[], help='as of DeepSpeech.py; may be given several times')
    add('--copies', type=int, default=1, help='of each utterance, augmented differently (%(default)s)')
    add('--clock', type=float, default=0.0, help='moment of training, 0 to 1, for ranges (%(default)s)')
    add('--random_seed', type=int, default=4568, help='of --sample and --augment (%(default)s)')
    add('--processes', type=int, default=cores(), help='that convert audio (%(default)s)')
    add('--noshow_progressbar', action='store_true', help='no progress bar')
    return parser


def job_of(args: argparse.Namespace) -> Job:
    """What the arguments say. Raises `FlagError` for values that cannot be."""
    for name, least in (('processes', 1), ('copies', 1), ('audio_rate', 0), ('audio_channel', 0)):
        if getattr(args, name) < least:
            raise FlagError(f'--{name}={getattr(args, name)}: must be at least {least}')
    if not 0 <= args.clock <= 1:
        raise FlagError(f'--clock={args.clock}: must be between 0 and 1')
    if args.copies > 1 and not args.augment:
        raise FlagError(f'--copies={args.copies}: without --augment they would be alike')
    check_augmentations(args.augment)
    conversion = None
    if args.augment or args.audio_format or args.audio_rate or args.audio_channel:
        conversion = Conversion(
            sample_rate=args.audio_rate,
            channel=args.audio_channel,
            format=args.audio_format or Conversion.format,
            augment=tuple(args.augment),
            copies=args.copies,
            clock=args.clock,
            seed=args.random_seed,
        )
    return Job(
        sources=tuple(args.source),
        outputs=tuple(args.output),
        labeled=not args.unlabeled,
        skip_bad=args.on_bad_sample == 'skip',
        sample=parse_amount('sample', args.sample) if args.sample else None,
        parts=tuple(parse_parts(args.split)) if args.split else (),
        split_by=args.split_by,
        conversion=conversion,
        seed=args.random_seed,
        overwrite=args.overwrite,
        processes=args.processes,
        show_progressbar=not args.noshow_progressbar,
    )


if __name__ == '__main__':
    sys.exit(main())
