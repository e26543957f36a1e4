#!/usr/bin/env python3
"""Imports recordings of your own: audio files beside text files, or a table of audio files and transcripts.

    python bin/import_folder.py my-data --archive recordings/
    python bin/import_folder.py my-data --archive recordings.zip --folders_are_speakers
    python bin/import_folder.py my-data --archive recordings/ --table recordings/list.tsv --audio_column file \
        --transcript_column text --speaker_column reader

Audio is whatever libsndfile reads. Without --table, a.wav (or a.flac, a.mp3 ...) has its transcript in a.txt. Columns
have the names in the first line of the table, or numbers from 1 where it has no such line.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepspeech_training import log
from deepspeech_training.errors import DataError, FlagError
from deepspeech_training.importing.corpus import Corpus, Tree, Utterance, read_text
from deepspeech_training.importing.program import run
from deepspeech_training.importing.tables import read_table

SUFFIXES = ('.wav', '.flac', '.mp3', '.ogg', '.opus', '.oga', '.aif', '.aiff', '.au', '.sph', '.nist', '.w64', '.caf')
"""The audio of a text, the first that is there."""


def add_arguments(parser: ArgumentParser) -> None:
    """Of this importer alone."""
    group = parser.add_argument_group('text files')
    group.add_argument('--text_suffix', default='.txt', help='of transcripts (default: %(default)s)')
    group.add_argument('--folders_are_speakers', action='store_true', help='the folder of a file names its speaker')
    add = parser.add_argument_group('tables').add_argument
    add('--table', type=Path, metavar='FILE', help='CSV or TSV; a path, or one in the archive')
    add('--audio_column', default='wav_filename', help='paths, from the folder of the table on (default: %(default)s)')
    add('--transcript_column', default='transcript', help='(default: %(default)s)')
    add('--speaker_column', default='', help='if there is one')
    add('--split_column', default='', help='if there is one: train, dev, test or other names')
    add('--delimiter', default='', help=r"between columns, as ';' or '\t'; default: the likeliest")
    add('--audio_dir', type=Path, metavar='FOLDER', help='from which paths start; default: that of the table')


def utterances(tree: Tree, args: Namespace) -> Iterator[Utterance]:
    """What the arguments choose. Raises `DataError`, `FlagError`."""
    return from_table(tree, args) if args.table else from_texts(tree, args)


def from_texts(tree: Tree, args: Namespace) -> Iterator[Utterance]:
    """Audio files that have a text beside them."""
    if not args.text_suffix.startswith('.'):
        raise FlagError(f'--text_suffix={args.text_suffix}: a suffix begins with a dot')
    alone = 0
    for path in tree.find(f'*{args.text_suffix}'):
        stem = path.with_name(path.name.removesuffix(args.text_suffix))
        candidates = [stem.with_name(stem.name + suffix) for kind in SUFFIXES for suffix in (kind, kind.upper())]
        audio = next((candidate for candidate in candidates if candidate.exists()), None)
        if audio is None:
            alone += 1
            continue
        speaker = path.parent.name if args.folders_are_speakers else ''
        words = ' '.join(read_text(path).split())
        yield Utterance(tree.inside(audio), str(audio), words, str(path), speaker=speaker)
    if alone:
        log.warn(f'{alone} files with the suffix {args.text_suffix} have no audio beside them')


def from_table(tree: Tree, args: Namespace) -> Iterator[Utterance]:
    """The rows of a table."""
    table = args.table if args.table.exists() else next(tree.find(str(args.table)), None)
    if table is None:
        raise DataError(f'--table={args.table}: is not there, nor in {", ".join(map(str, tree.roots))}')
    delimiter = args.delimiter.replace('\\t', '\t')
    if len(delimiter) > 1:
        raise FlagError(f'--delimiter={args.delimiter}: must be one character')
    columns = {
        'audio': args.audio_column,
        'transcript': args.transcript_column,
        'speaker': args.speaker_column,
        'split': args.split_column,
    }
    rows = list(read_table(table, columns, delimiter))
    if not rows:
        raise DataError(f'{table}: has no rows')
    for row, source in rows:
        audio = os.path.join(args.audio_dir or table.parent, row['audio']) if row['audio'] else ''
        name = os.path.splitext(row['audio'])[0]
        yield Utterance(name, audio, row['transcript'], source, row['split'].strip(), row['speaker'].strip())


CORPUS = Corpus(
    name='folder of recordings',
    layout='audio files with text files of the same names beside them; or give --table',
    source='',
    read=utterances,
    add_arguments=add_arguments,
)

if __name__ == '__main__':
    sys.exit(run(CORPUS, __doc__))
