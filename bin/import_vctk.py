#!/usr/bin/env python3
"""Imports VCTK: 110 speakers of English with their accents. Releases 0.92 and 0.80.

    python bin/import_vctk.py data/vctk --archive VCTK-Corpus-0.92.zip

Split by speaker, for the corpus has no split of its own.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepspeech_training.importing.corpus import Corpus, Download, Tree, Utterance, read_text
from deepspeech_training.importing.program import run

ADDRESS = 'https://datashare.ed.ac.uk/bitstream/handle/10283/3443/VCTK-Corpus-0.92.zip'


def add_arguments(parser: ArgumentParser) -> None:
    """Of this importer alone."""
    parser.add_argument('--microphone', choices=('1', '2'), default='1', help='of release 0.92 (default: %(default)s)')


def utterances(tree: Tree, args: Namespace) -> Iterator[Utterance]:
    """A text for each recording; since release 0.92 there are recordings of two microphones."""
    for path in tree.find('txt/p*/*.txt'):
        speaker, root = path.parent.name, path.parents[2]
        audio = root / 'wav48' / speaker / f'{path.stem}.wav'
        if not audio.exists():
            audio = root / 'wav48_silence_trimmed' / speaker / f'{path.stem}_mic{args.microphone}.flac'
        yield Utterance(f'{speaker}/{audio.stem}', str(audio), read_text(path), str(path), speaker=speaker)


CORPUS = Corpus(
    name='VCTK',
    layout='txt/SPEAKER/*.txt beside wav48_silence_trimmed or wav48',
    source='https://datashare.ed.ac.uk/handle/10283/3443',
    read=utterances,
    downloads=lambda args: [Download(ADDRESS, 11_747_302_977, 'md5:8a6ba2946b36fcbef0212cad601f4bfa')],
    add_arguments=add_arguments,
)

if __name__ == '__main__':
    sys.exit(run(CORPUS, __doc__))
