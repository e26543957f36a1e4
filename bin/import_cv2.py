#!/usr/bin/env python3
"""Imports Common Voice, as Mozilla publishes it since its second release.

    python bin/import_cv2.py data/cv-de --archive cv-corpus-17.0-2024-03-15-de.tar.gz
    python bin/import_cv2.py cv-corpus-17.0-2024-03-15/de
    python bin/import_cv2.py data/cv-de --archive cv-corpus-17.0-2024-03-15/de --splits train-all,dev,test

Splits are the .tsv files: train, dev and test, and with --splits also validated, other, invalidated. train-all is
what is validated and neither in dev nor in test, ten times as much as train in some languages.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepspeech_training.importing.corpus import Corpus, Tree, Utterance
from deepspeech_training.importing.program import run
from deepspeech_training.importing.tables import read_table

SPLITS = ('train', 'dev', 'test')
TRAIN_ALL = 'train-all'
COLUMNS = {'path': 'path', 'sentence': 'sentence', 'speaker': 'client_id'}


def add_arguments(parser: ArgumentParser) -> None:
    """Of this importer alone."""
    parser.add_argument(
        '--audio_dir', type=Path, metavar='FOLDER', help='of the clips; default: clips/ beside the .tsv'
    )


def utterances(tree: Tree, args: Namespace) -> Iterator[Utterance]:
    """Every .tsv of the wanted splits has a line for each clip."""
    for split in args.splits or SPLITS:
        others: set[str] = set()
        if split == TRAIN_ALL:
            files = [path for name in ('dev', 'test') for path in tree.find(f'{name}.tsv')]
            others = {row['path'] for path in files for row, _ in read_table(path, COLUMNS, '\t')}
        for table in tree.find('validated.tsv' if split == TRAIN_ALL else f'{split}.tsv'):
            clips = args.audio_dir or table.parent / 'clips'
            for row, source in read_table(table, COLUMNS, '\t'):
                if row['path'] not in others:
                    yield utterance(clips, row, source, split)


def utterance(clips: Path, row: dict[str, str], source: str, split: str) -> Utterance:
    """Clips have no suffix in the tables of the first releases."""
    name = row['path'] if Path(row['path']).suffix else f'{row["path"]}.mp3'
    return Utterance(Path(name).stem, str(clips / name), row['sentence'], source, split, row['speaker'])


CORPUS = Corpus(
    name='Common Voice',
    layout='train.tsv, dev.tsv or test.tsv (or what --splits names) beside a folder clips',
    source='https://commonvoice.mozilla.org/datasets',
    read=utterances,
    add_arguments=add_arguments,
)

if __name__ == '__main__':
    sys.exit(run(CORPUS, __doc__))
