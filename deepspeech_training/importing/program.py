"""An importer as a program: the arguments that all have, and the way from an archive to CSV files."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from deepspeech_training import log
from deepspeech_training.config import UNICODE_NORMALIZATIONS, FeatureConfig
from deepspeech_training.data.splitting import BY_SPEAKER, BY_UTTERANCE, Shares
from deepspeech_training.errors import DataError, FlagError
from deepspeech_training.importing.corpus import Corpus
from deepspeech_training.importing.filters import Limits
from deepspeech_training.importing.labels import LabelSettings, load_validate_label
from deepspeech_training.importing.sources import import_lock, open_corpus
from deepspeech_training.importing.work import BY_CORPUS, Settings, import_utterances
from deepspeech_training.programs import exit_status
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.workers import cores

RATES = (4000, 192000)  # Hz


def run(corpus: Corpus, description: str | None, arguments: Sequence[str] | None = None) -> int:
    """Imports `corpus`; returns the exit status: 0, 2 for what the user can put right, 130 when interrupted."""
    args = build_parser(corpus, description).parse_args(arguments)
    log.setup(args.log_level)
    return exit_status(lambda: _import(corpus, args), 'Interrupted; the same command goes on')


def _import(corpus: Corpus, args: argparse.Namespace) -> None:
    """Raises `UserError`."""
    try:
        settings = make_settings(corpus, args)
        with import_lock(settings.folder):
            tree = open_corpus(corpus, args, settings.folder)
            told = import_utterances(corpus, corpus.read(tree, args), settings)
    except OSError as error:
        raise DataError(f'{error.filename or args.folder}: {error.strerror or error}') from error
    print(told)


def build_parser(corpus: Corpus, description: str | None) -> argparse.ArgumentParser:
    """The command line. `description` is the importer's docstring."""
    title, _, rest = (description or '').partition('\n\n')
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        usage='%(prog)s FOLDER [--archive PATH ...] [OPTION ...]',
        description=title,
        epilog=rest,
        formatter_class=formatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add('folder', type=Path, help='where CSV files and audio go; archives are looked for and downloaded there')
    add(
        *('--archive', '--source'),
        type=Path,
        nargs='+',
        default=[],
        metavar='PATH',
        help=f'archives, or folders they are unpacked in, of {corpus.name}; nothing is downloaded then',
    )
    add('--sample_rate', type=int, default=FeatureConfig.sample_rate, help='of the audio, Hz (default: %(default)s)')
    add('--audio_channel', type=int, default=0, help='of audio with several, from 1; 0 mixes them (default: 0)')
    add('--keep_audio', action='store_true', help='name the audio files as they are, converting none')
    add('--processes', type=int, default=0, help='that convert audio; default: one a core')
    _add_transcript_arguments(parser)
    _add_filter_arguments(parser)
    _add_split_arguments(parser, corpus)
    add('--noshow_progressbar', action='store_true', help='no progress bar')
    add('--log_level', type=int, choices=range(4), default=1, help='0 debug, 1 info, 2 warnings, 3 errors')
    corpus.add_arguments(parser)
    return parser


def _add_transcript_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group('transcripts').add_argument
    add(
        '--validate_label_locale',
        default='',
        metavar='FILE.py',
        help='a Python file with validate_label(label), which returns the cleaned transcript or None to leave it out; '
        'default: lower case, no punctuation, none with digits or brackets',
    )
    add('--filter_alphabet', default='', metavar='FILE', help='leave out transcripts that this alphabet cannot spell')
    add('--normalize', action='store_true', help='letters without diacritics, and none that are not ASCII')
    add('--unicode_normalization', choices=UNICODE_NORMALIZATIONS, default='NFC', help='(default: %(default)s)')
    add('--space_after_every_character', action='store_true', help='so that characters count as words')


def _add_filter_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group('what is left out').add_argument
    add('--min_seconds', type=float, default=0.1, help='shorter utterances (default: %(default)s)')
    add('--max_seconds', type=float, default=40.0, help='longer utterances; 0: none (default: %(default)s)')
    add(
        '--max_chars_per_second',
        type=float,
        default=40.0,
        help='longer transcripts; 0: none but those that CTC cannot align (default: %(default)s)',
    )


def _add_split_arguments(parser: argparse.ArgumentParser, corpus: Corpus) -> None:
    add = parser.add_argument_group('train, dev and test').add_argument
    usual = ','.join(corpus.splits) or 'all'
    add('--splits', type=_names, default=(), metavar='LIST', help=f'which of the corpus (default: {usual})')
    add(
        '--split_by',
        choices=(BY_CORPUS, BY_SPEAKER, BY_UTTERANCE),
        default=BY_CORPUS,
        help="as the corpus does, and where it does not, by speaker if there are enough; 'speaker' and 'utterance' "
        'make new ones of all that is imported (default: %(default)s)',
    )
    add('--dev_share', type=float, default=0.1, help='of utterances that are split (default: %(default)s)')
    add('--test_share', type=float, default=0.1, help='of utterances that are split (default: %(default)s)')


def _names(value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(',') if name.strip())


def make_settings(corpus: Corpus, args: argparse.Namespace) -> Settings:
    """What the arguments say. Raises `UserError` for values that cannot be."""
    if not RATES[0] <= args.sample_rate <= RATES[1]:
        raise FlagError(f'--sample_rate={args.sample_rate}: must be from {RATES[0]} to {RATES[1]} Hz')
    for name in ('processes', 'audio_channel'):
        if getattr(args, name) < 0:
            raise FlagError(f'--{name}={getattr(args, name)}: must not be negative')
    for name in ('min_seconds', 'max_seconds', 'max_chars_per_second'):
        if not 0 <= getattr(args, name) < math.inf:
            raise FlagError(f'--{name}={getattr(args, name)}: must be a number, 0 or more')
    for name in ('dev_share', 'test_share'):
        if not 0 <= getattr(args, name) < 1:
            raise FlagError(f'--{name}={getattr(args, name)}: must be from 0 to 1')
    if args.dev_share + args.test_share >= 1:
        raise FlagError(f'--dev_share={args.dev_share} and --test_share={args.test_share} leave nothing for train')
    if args.keep_audio and corpus.is_cut:
        raise FlagError(f'--keep_audio: {corpus.name} has long recordings, of which utterances must be cut')
    if args.keep_audio and args.audio_channel:
        raise FlagError(f'--audio_channel={args.audio_channel}: with --keep_audio, give it to DeepSpeech.py')
    alphabet = args.filter_alphabet and Alphabet.from_file(args.filter_alphabet, args.unicode_normalization)
    labels = LabelSettings(
        validate=load_validate_label(args.validate_label_locale) if args.validate_label_locale else None,
        alphabet=alphabet or None,
        strip_diacritics=args.normalize,
        normalization=args.unicode_normalization,
        space_after_every_character=args.space_after_every_character,
    )
    features = FeatureConfig(sample_rate=args.sample_rate, channel=args.audio_channel)
    return Settings(
        folder=args.folder,
        labels=labels,
        limits=Limits(args.min_seconds, args.max_seconds, args.max_chars_per_second, features),
        keep_audio=args.keep_audio,
        processes=args.processes or cores(),
        splits=args.splits,
        split_by=args.split_by,
        shares=Shares(args.dev_share, args.test_share),
        show_progress=not args.noshow_progressbar,
    )
