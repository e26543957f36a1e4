#!/usr/bin/env python3
"""Imports the Free Spoken Digit Dataset: English digits, one at a time, at 8 kHz.

    python bin/import_fsdd.py data/fsdd --sample_rate 8000

As its authors say, recordings 0 to 4 of each digit and speaker are for test; 5 to 9 become dev.
"""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepspeech_training.importing.corpus import Corpus, Download, Tree, Utterance
from deepspeech_training.importing.program import run

ADDRESS = 'https://github.com/Jakobovski/free-spoken-digit-dataset/archive/refs/tags/v1.0.10.zip'
DIGITS = ('zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine')


def utterances(tree: Tree, args: Namespace) -> Iterator[Utterance]:
    """Files are called DIGIT_SPEAKER_NUMBER.wav."""
    for path in tree.find('recordings/*.wav'):
        if match := re.fullmatch(r'(\d)_(\w+)_(\d+)', path.stem):
            number = int(match[3])
            split = 'test' if number < 5 else 'dev' if number < 10 else 'train'
            yield Utterance(path.stem, str(path), DIGITS[int(match[1])], str(path), split, match[2])


CORPUS = Corpus(
    name='Free Spoken Digit Dataset',
    layout='recordings/DIGIT_SPEAKER_NUMBER.wav',
    source='https://github.com/Jakobovski/free-spoken-digit-dataset',
    read=utterances,
    downloads=lambda args: [Download(ADDRESS)],
)

if __name__ == '__main__':
    sys.exit(run(CORPUS, __doc__))
