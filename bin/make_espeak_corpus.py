#!/usr/bin/env python3
"""Makes a speech corpus with eSpeak NG, in DeepSpeech's format.

    bin/make_espeak_corpus.py my-corpus --grammar data/demo/home.gram --utterances 3000
    bin/make_espeak_corpus.py my-corpus --sentences sentences.txt --normalize --hours 10 --language de \\
        --alphabet_config_path data/alphabet.de.txt

writes my-corpus/train.csv, dev.csv and test.csv with their WAV files (mono, 16 bits). No speaker is in two of them. The
same arguments give the same files, bit for bit, whatever the number of processes; a corpus that is there is not made
again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # so that it runs in a checkout that is not installed

from espeak_corpus.corpus import CorpusFolder, Size, Summary, make_corpus  # noqa: E402
from espeak_corpus.grammar import Grammar  # noqa: E402
from espeak_corpus.library import PITCHES, RATES, Espeak  # noqa: E402
from espeak_corpus.plan import SPLITS, Plan  # noqa: E402
from espeak_corpus.reading import read_text  # noqa: E402
from espeak_corpus.sentences import GrammarSentences, SentenceList, SentenceSource  # noqa: E402
from espeak_corpus.voices import PLAIN, check_disjoint, check_name, parse_voices  # noqa: E402

from deepspeech_training import log  # noqa: E402
from deepspeech_training.errors import FlagError  # noqa: E402
from deepspeech_training.programs import exit_status  # noqa: E402
from deepspeech_training.text.alphabet import Alphabet  # noqa: E402

# Speakers that sound like people, and of variants that hardly differ (adam, benjamin) only one.
TRAIN_VOICES = (
    'm1,m3,m4,m6,m7,m8,f1,f2,f4,Alex,Alicia,Andy,Annie,Denis,Gene,Henrique,Lee,Mario,Michael,Mike,Reed,'
    'announcer,belinda,caleb,david,ed,edward,john,linda,max,pablo,quincy,robert,sandro,steph,victor'
)
DEV_VOICES = 'm2,f3,Nguyen'
TEST_VOICES = 'm5,f5,paul'
ALPHABET = ROOT / 'data' / 'alphabet.txt'
NAMED_VOICES = 8  # more of them are in corpus.json


def build_parser() -> argparse.ArgumentParser:
    description, _, rest = str(__doc__).partition('\n\n')
    parser = argparse.ArgumentParser(
        description=description, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument('folder', nargs='?', help='where the corpus goes')
    text = parser.add_argument_group('what is said')
    source = text.add_mutually_exclusive_group()
    source.add_argument('--sentences', metavar='FILE', help='a text file, one sentence a line; # begins a comment')
    source.add_argument('--grammar', metavar='FILE', help='a JSGF grammar (see bin/espeak_corpus/grammar.py)')
    text.add_argument(
        '--normalize',
        action='store_true',
        help='for --sentences: transcripts in lower case and without punctuation; spoken is the line as it is',
    )
    text.add_argument(
        '--alphabet_config_path',
        metavar='FILE',
        default=str(ALPHABET),
        help="the model's alphabet, which must have every character ('' for no check; default: data/alphabet.txt)",
    )
    text.add_argument(
        '--unseen_sentences',
        action='store_true',
        help='no sentence of dev or test occurs in train either (without it only the speakers are unseen)',
    )
    add_voice_arguments(parser)
    add_size_arguments(parser)
    parser.add_argument('--seed', type=int, default=1, help='(default: 1)')
    parser.add_argument('--processes', type=int, default=0, help='default: one a core')
    parser.add_argument('--overwrite', action='store_true', help='replace a corpus made with other arguments')
    parser.add_argument('--noshow_progressbar', action='store_true')
    return parser


def add_voice_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        'who says it, and how',
        "A voice is a variant of --language ('m3'), or of another language ('en-gb-scotland+m3').",
    )
    group.add_argument('--list_voices', action='store_true', help='show all languages and variants, and end')
    group.add_argument('--language', default='en-us', help='(default: en-us)')
    for split, voices in zip(SPLITS, (TRAIN_VOICES, DEV_VOICES, TEST_VOICES), strict=True):
        group.add_argument(f'--{split}_voices', metavar='LIST', default=voices, help=f'(default: {voices})')
    group.add_argument(
        '--rates', metavar='LIST', default='140,165,190', help='words a minute, 80 to 450 (default: 140,165,190)'
    )
    group.add_argument('--pitches', metavar='LIST', default='35,50,65', help='0 to 99 (default: 35,50,65)')


def add_size_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group('how much, of what kind')
    size = group.add_mutually_exclusive_group()
    size.add_argument('--utterances', type=int, help='in all three parts together (default: 1000)')
    size.add_argument('--hours', type=float, help='of speech, in all three parts together')
    group.add_argument('--dev_share', type=float, default=0.1, help='of the whole (default: 0.1)')
    group.add_argument('--test_share', type=float, default=0.1, help='of the whole (default: 0.1)')
    group.add_argument('--sample_rate', type=int, default=16000, help='Hz (default: 16000)')


def numbers(flag: str, value: str, limits: tuple[int, int]) -> tuple[int, ...]:
    """A list like `140,165`. Raises `FlagError`."""
    low, high = limits
    try:
        parsed = tuple(int(part) for part in value.split(','))
    except ValueError:
        raise FlagError(f'--{flag}: {value!r} is no list of whole numbers; write for example {low},{high}') from None
    for number in parsed:
        if not low <= number <= high:
            raise FlagError(f'--{flag}: {number} is not between {low} and {high}')
    if len(set(parsed)) < len(parsed):
        raise FlagError(f'--{flag}: {value} names a number twice')
    return parsed


def choose_shares(arguments: argparse.Namespace) -> dict[str, float]:
    for name in ('dev_share', 'test_share'):
        if not 0 <= getattr(arguments, name) < 1:
            raise FlagError(f'--{name}: {getattr(arguments, name)} is not between 0 and 1')
    train = 1 - arguments.dev_share - arguments.test_share
    if train <= 0:
        raise FlagError(
            f'--dev_share {arguments.dev_share} --test_share {arguments.test_share} leave nothing for train'
        )
    return {'train': train, 'dev': arguments.dev_share, 'test': arguments.test_share}


def choose_size(arguments: argparse.Namespace, shares: dict[str, float]) -> Size:
    if arguments.hours is not None:
        if not 0 < arguments.hours <= 10_000:
            raise FlagError(f'--hours: {arguments.hours} is not between 0 and 10000')
        return Size(seconds={split: arguments.hours * 3600 * share for split, share in shares.items()})
    total = 1000 if arguments.utterances is None else arguments.utterances
    counts = {split: round(total * shares[split]) for split in ('dev', 'test')}
    train = total - sum(counts.values())
    if train <= 0 or total > 10_000_000:
        raise FlagError(f'--utterances: {total} is not between 1 and 10000000')
    for split, count in counts.items():
        if count == 0 and shares[split] > 0:
            raise FlagError(f'--utterances: {total} are too few to have {shares[split]:g} of them in {split}')
    return Size(utterances={'train': train, **counts})


def choose_source(arguments: argparse.Namespace) -> tuple[SentenceSource, str]:
    """The sentences, checked against the alphabet, and a hash of their text."""
    if arguments.grammar is None and arguments.sentences is None:
        raise FlagError('what shall be said? Give --sentences FILE or --grammar FILE')
    source: SentenceSource
    if arguments.grammar is not None:
        if arguments.normalize:
            raise FlagError('--normalize is for --sentences; write the words of a grammar as the transcripts have them')
        source = GrammarSentences(Grammar.from_file(arguments.grammar))
    else:
        source = SentenceList.from_file(arguments.sentences, normalize=arguments.normalize)
    if arguments.alphabet_config_path:
        source.check(Alphabet.from_file(arguments.alphabet_config_path))
    text = read_text(arguments.grammar or arguments.sentences)
    return source, hashlib.sha256(text.encode()).hexdigest()


def list_voices(espeak: Espeak) -> None:
    print('Languages:', ', '.join(espeak.languages()))
    print('Variants (the speakers):', ', '.join((PLAIN, *espeak.variants())))


def report(folder: str, summaries: dict[str, Summary]) -> None:
    for split, summary in summaries.items():
        names = f' ({", ".join(summary.voices)})' if len(summary.voices) <= NAMED_VOICES else ''
        print(
            f'{os.path.join(folder, split)}.csv: {summary.utterances} utterances, {summary.seconds / 3600:.2f} hours, '
            f'{summary.sentences} different sentences, {len(summary.voices)} voices{names}'
        )


def run(arguments: argparse.Namespace) -> None:
    """Makes the corpus. Raises `UserError`."""
    log.setup(1)
    espeak = Espeak()
    if arguments.list_voices:
        list_voices(espeak)
        return
    if not arguments.folder:
        raise FlagError('name the folder of the corpus')
    check_name('language', arguments.language, 'language', arguments.language, espeak.languages())
    shares = choose_shares(arguments)
    voices = {
        split: parse_voices(f'{split}_voices', getattr(arguments, f'{split}_voices'), arguments.language, espeak)
        for split in SPLITS
        if shares[split] > 0
    }
    check_disjoint(voices)
    source, text_hash = choose_source(arguments)
    if not 8000 <= arguments.sample_rate <= 48000:
        raise FlagError(f'--sample_rate: {arguments.sample_rate} is not between 8000 and 48000')
    if arguments.processes < 0:
        raise FlagError(f'--processes: {arguments.processes} is negative')
    plan = Plan(
        source,
        voices,
        numbers('rates', arguments.rates, RATES),
        numbers('pitches', arguments.pitches, PITCHES),
        shares,
        arguments.seed,
        arguments.unseen_sentences,
    )
    build(arguments, plan, choose_size(arguments, shares), text_hash)


def build(arguments: argparse.Namespace, plan: Plan, size: Size, text_hash: str) -> None:
    parameters: dict[str, Any] = {
        'text': text_hash,
        'normalize': arguments.normalize,
        'unseen_sentences': arguments.unseen_sentences,
        'voices': {split: [voice.name for voice in voices] for split, voices in plan.voices.items()},
        'rates': list(plan.rates),
        'pitches': list(plan.pitches),
        'utterances': size.utterances,
        'seconds': size.seconds,
        'sample_rate': arguments.sample_rate,
        'seed': arguments.seed,
    }
    folder = CorpusFolder(arguments.folder)
    if not folder.prepare(parameters, overwrite=arguments.overwrite):
        print(f'{arguments.folder}: this corpus is there already')
        return
    total = sum(size.wanted(split) for split in SPLITS)
    with log.progress('Speaking', total, not arguments.noshow_progressbar) as bar:
        summaries = make_corpus(
            folder,
            plan,
            size,
            sample_rate=arguments.sample_rate,
            processes=arguments.processes or len(os.sched_getaffinity(0)),
            advance=bar.advance,
        )
    folder.write_note(parameters, summaries, complete=True)
    report(arguments.folder, summaries)


def main(argv: list[str] | None = None) -> int:
    arguments = build_parser().parse_args(argv)
    return exit_status(lambda: run(arguments), 'Interrupted; the next run starts anew')


if __name__ == '__main__':
    sys.exit(main())
