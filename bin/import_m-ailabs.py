#!/usr/bin/env python3
"""Imports M-AILABS: audio books in nine languages.

    python bin/import_m-ailabs.py data/m-ailabs-de --language de_DE
    python bin/import_m-ailabs.py data/m-ailabs-de --archive de_DE.tgz --skiplist mix

The corpus has no split of its own and few speakers: dev and test have other sentences, but not other speakers.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepspeech_training.errors import FlagError
from deepspeech_training.importing.corpus import Corpus, Download, Tree, Utterance
from deepspeech_training.importing.program import run
from deepspeech_training.importing.tables import read_table

ADDRESS = 'https://ics.tau-ceti.space/data/Training/stt_tts/'
LANGUAGES = ('de_DE', 'en_UK', 'en_US', 'es_ES', 'fr_FR', 'it_IT', 'pl_PL', 'ru_RU', 'uk_UK')
COLUMNS = {'name': '1', 'transcript': '3'}  # the second is the text before numbers were spelled out


def add_arguments(parser: ArgumentParser) -> None:
    """Of this importer alone."""
    parser.add_argument('--language', default='', choices=('', *LANGUAGES), help='what is downloaded')
    parser.add_argument('--skiplist', default='', metavar='LIST', help='folders (speakers, books, mix) to leave out')


def downloads(args: Namespace) -> list[Download]:
    """An archive for each language."""
    if not args.language:
        raise FlagError(f'--language: which one? {", ".join(LANGUAGES)}; or name an archive with --archive')
    return [Download(f'{ADDRESS}{args.language}.tgz')]


def utterances(tree: Tree, args: Namespace) -> Iterator[Utterance]:
    """Folders are by_book/SEX/SPEAKER/BOOK, or by_book/mix/BOOK; each has metadata.csv and wavs/."""
    skipped = set(filter(None, args.skiplist.split(',')))
    for table in tree.find('metadata.csv'):
        if 'by_book' in table.parts and skipped.isdisjoint(table.parts):
            speaker = table.parents[1].name if table.parents[3].name == 'by_book' else ''
            for row, source in read_table(table, COLUMNS, '|'):
                audio = table.parent / 'wavs' / f'{row["name"]}.wav'
                yield Utterance(tree.inside(audio), str(audio), row['transcript'], source, speaker=speaker)


CORPUS = Corpus(
    name='M-AILABS',
    layout='by_book/*/SPEAKER/BOOK/metadata.csv',
    source='https://github.com/i-celeste-aurora/m-ailabs-dataset',
    read=utterances,
    downloads=downloads,
    add_arguments=add_arguments,
)

if __name__ == '__main__':
    sys.exit(run(CORPUS, __doc__))
