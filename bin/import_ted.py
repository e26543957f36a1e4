#!/usr/bin/env python3
"""Imports TED-LIUM: English talks, cut into utterances.

    python bin/import_ted.py data/ted --release 2
    python bin/import_ted.py data/ted --archive TEDLIUM_release-3.tgz

Utterances with words that the corpus marks as unknown (<unk>) are left out.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import re

from deepspeech_training.errors import DataError
from deepspeech_training.importing.corpus import Corpus, Download, Tree, Utterance, read_lines
from deepspeech_training.importing.program import run

ADDRESS = 'https://www.openslr.org/resources/'
RELEASES = {
    '1': ('7/TEDLIUM_release1.tar.gz', '30301975fd8c5cac4040c261c0852f57cfa8adbbad2ce78e77e4986957445f27'),
    '2': ('19/TEDLIUM_release2.tar.gz', '93281b5fcaaae5c88671c9d000b443cb3c7ea3499ad12010b3934ca41a7b9c58'),
    '3': ('51/TEDLIUM_release-3.tgz', 'ad1e454d14d1ad550bc2564c462d87c7a7ec83d4dc2b9210f22ab4973b9eccdb'),
}
NOT_SCORED = 'ignore_time_segment_in_scoring'
NOISE_OR_VARIANT = re.compile(r'\{[^}]*\}|\(\d+\)')
"""{SMACK} is a noise; of the(2) the number says how the word is pronounced."""


def add_arguments(parser: ArgumentParser) -> None:
    """Of this importer alone."""
    parser.add_argument('--release', choices=tuple(RELEASES), default='2', help='to download (default: %(default)s)')


def downloads(args: Namespace) -> list[Download]:
    """An archive for each release."""
    name, checksum = RELEASES[args.release]
    return [Download(ADDRESS + name, checksum=f'sha256:{checksum}')]


def utterances(tree: Tree, args: Namespace) -> Iterator[Utterance]:
    """Each talk has stm/TALK.stm, with a line for each utterance, and sph/TALK.sph."""
    talks = list(tree.find('stm/*.stm'))
    splits = [path.parents[1].name for path in talks]
    for path, split in zip(talks, splits, strict=True):
        if 'data' in splits and split == 'train':
            continue  # release 3 has the older training talks a second time
        audio = path.parents[1] / 'sph' / f'{path.stem}.sph'
        for line, source in read_lines(path):
            if not line.startswith(';;') and NOT_SCORED not in line:
                yield utterance(line, source, audio, 'train' if split == 'data' else split)


def utterance(line: str, source: str, audio: Path, split: str) -> Utterance:
    """Of a line: talk, channel, speaker, begin and end in seconds, labels, words (NIST's format stm)."""
    fields = line.split(None, 6)
    try:
        start, end = float(fields[3]), float(fields[4])
    except (IndexError, ValueError):
        raise DataError(f'{source}: is no line of an .stm file: {line!r}') from None
    words = NOISE_OR_VARIANT.sub(' ', fields[6] if len(fields) > 6 else '')
    words = re.sub(r" '(?=\w)", "'", words)  # it 's
    name = f'{split}/{audio.stem}/{audio.stem}-{start:09.2f}-{end:09.2f}'
    return Utterance(name, str(audio), words, source, split, fields[2], start, end)


CORPUS = Corpus(
    name='TED-LIUM',
    layout='stm/*.stm beside sph/*.sph',
    source='https://www.openslr.org/51',
    read=utterances,
    downloads=downloads,
    add_arguments=add_arguments,
    is_cut=True,
)

if __name__ == '__main__':
    sys.exit(run(CORPUS, __doc__))
