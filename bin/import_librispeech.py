#!/usr/bin/env python3
"""Imports LibriSpeech: read audio books, 1000 hours of English.

    python bin/import_librispeech.py data/librispeech --subsets dev-clean,test-clean,train-clean-100
    python bin/import_librispeech.py data/librispeech --archive dev-clean.tar.gz train-clean-100.tar.gz

writes a CSV file for each part: train-clean-100.csv, dev-clean.csv and so on. This is DeepSpeech's import_librivox.py.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepspeech_training.errors import FlagError
from deepspeech_training.importing.corpus import Corpus, Download, Tree, Utterance, read_lines
from deepspeech_training.importing.program import run

ADDRESS = 'https://www.openslr.org/resources/12/'
MD5 = {
    'train-clean-100': '2a93770f6d5c6c964bc36631d331a522',
    'train-clean-360': 'c0e676e450a7ff2f54aeade5171606fa',
    'train-other-500': 'd1a0fd59409feb2c614ce4d30c387708',
    'dev-clean': '42e2234ba48799c1f50f24a7926300a1',
    'dev-other': 'c8d0bcc9cca99d4f8b62fcc847357931',
    'test-clean': '32fa31d27d2e1cad72775fee3f4849a9',
    'test-other': 'fb5a50374b501bb3bac4815ee91d3135',
}


def add_arguments(parser: ArgumentParser) -> None:
    """Of this importer alone."""
    parser.add_argument('--subsets', default=','.join(MD5), help='what is downloaded (default: %(default)s)')


def downloads(args: Namespace) -> list[Download]:
    """An archive for each part."""
    names = args.subsets.split(',')
    for name in names:
        if name not in MD5:
            raise FlagError(f'--subsets: {name!r} is no part of LibriSpeech. These are: {", ".join(MD5)}')
    return [Download(f'{ADDRESS}{name}.tar.gz', checksum=f'md5:{MD5[name]}') for name in names]


def utterances(tree: Tree, args: Namespace) -> Iterator[Utterance]:
    """Folders are PART/SPEAKER/CHAPTER; each has a text with a line for each recording: its name, and the words."""
    for path in tree.find('*-*/*/*/*.trans.txt'):
        speaker, part = path.parents[1].name, path.parents[2].name
        for line, source in read_lines(path):
            name, _, words = line.partition(' ')
            audio = path.parent / f'{name}.flac'
            yield Utterance(f'{part}/{speaker}/{name}', str(audio), words, source, part, speaker)


CORPUS = Corpus(
    name='LibriSpeech',
    layout='PART/SPEAKER/CHAPTER/*.trans.txt',
    source='https://www.openslr.org/12',
    read=utterances,
    downloads=downloads,
    add_arguments=add_arguments,
)

if __name__ == '__main__':
    sys.exit(run(CORPUS, __doc__))
