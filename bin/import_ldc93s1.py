#!/usr/bin/env python3
"""Imports LDC93S1, one sentence of TIMIT, with which a training can be tried.

    python bin/import_ldc93s1.py data/ldc93s1

writes data/ldc93s1/ldc93s1.csv.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepspeech_training.importing.corpus import Corpus, Download, Tree, Utterance, read_lines
from deepspeech_training.importing.program import run

ADDRESS = 'https://catalog.ldc.upenn.edu/desc/addenda/LDC93S1'


def utterances(tree: Tree, args: Namespace) -> Iterator[Utterance]:
    """The text is one line: first sample, last sample, words."""
    for path in tree.find('LDC93S1.txt'):
        audio = path.with_suffix('.wav')
        if audio.exists():
            for line, source in read_lines(path):
                words = line.split(' ', 2)[-1]
                yield Utterance(tree.inside(audio), str(audio), words, source, split='ldc93s1')


CORPUS = Corpus(
    name='LDC93S1',
    layout='LDC93S1.wav and LDC93S1.txt',
    source='https://catalog.ldc.upenn.edu/LDC93S1',
    read=utterances,
    downloads=lambda args: [Download(ADDRESS + '.wav', 93_638), Download(ADDRESS + '.txt')],
)

if __name__ == '__main__':
    sys.exit(run(CORPUS, __doc__))
