#!/usr/bin/env python3
"""Imports AISHELL-1: 170 hours of Mandarin.

    python bin/import_aishell.py data/aishell --archive data_aishell.tgz

The spaces between words, which are not written in Chinese, are left out; --keep_spaces keeps them.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepspeech_training.importing.corpus import Corpus, Download, Tree, Utterance, read_lines
from deepspeech_training.importing.program import run

ADDRESS = 'https://www.openslr.org/resources/33/data_aishell.tgz'


def add_arguments(parser: ArgumentParser) -> None:
    """Of this importer alone."""
    parser.add_argument('--keep_spaces', action='store_true', help='between the words of a transcript')


def utterances(tree: Tree, args: Namespace) -> Iterator[Utterance]:
    """One text has all transcripts; the audio is in SPLIT/SPEAKER/, packed for each speaker."""
    transcripts = {}
    for path in tree.find('aishell_transcript*.txt'):
        for line, source in read_lines(path):
            name, _, words = line.partition(' ')
            transcripts[name] = (words if args.keep_spaces else ''.join(words.split())), source
    if not transcripts:
        return
    for audio in tree.find('*/S*/*.wav'):
        if audio.stem in transcripts:  # a few hundred recordings have none
            speaker, split = audio.parent.name, audio.parents[1].name
            yield Utterance(f'{split}/{speaker}/{audio.stem}', str(audio), *transcripts[audio.stem], split, speaker)


CORPUS = Corpus(
    name='AISHELL-1',
    layout='transcript/aishell_transcript_v0.8.txt with wav/SPEAKER.tar.gz or SPLIT/SPEAKER/*.wav',
    source='https://www.openslr.org/33',
    read=utterances,
    downloads=lambda args: [Download(ADDRESS, checksum='md5:2f494334227864a8a8fec932999db9d8')],
    add_arguments=add_arguments,
    nested='wav/S*.tar.gz',
)

if __name__ == '__main__':
    sys.exit(run(CORPUS, __doc__))
