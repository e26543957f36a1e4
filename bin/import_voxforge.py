#!/usr/bin/env python3
"""Imports VoxForge: recordings of volunteers, one archive for each of their sessions.

    python bin/import_voxforge.py data/voxforge --archive voxforge-archives/

Split by speaker; each session of somebody who gave no name counts as another speaker.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepspeech_training.importing.corpus import Corpus, Download, Tree, Utterance, read_lines
from deepspeech_training.importing.download import fetch_text
from deepspeech_training.importing.program import run

ADDRESS = 'http://www.repository.voxforge1.org/downloads/SpeechCorpus/Trunk/Audio/Main/16kHz_16bit/'
NOBODY = 'anonymous'


def add_arguments(parser: ArgumentParser) -> None:
    """Of this importer alone."""
    parser.add_argument('--url', default=ADDRESS, help='a page with links to .tgz files (default: English)')


def downloads(args: Namespace) -> list[Download]:
    """What the page links to."""
    names = re.findall(r'href="([^"/?]+\.tgz)"', fetch_text(args.url))
    return [Download(args.url.rstrip('/') + '/' + name) for name in dict.fromkeys(names)]


def utterances(tree: Tree, args: Namespace) -> Iterator[Utterance]:
    """A session has etc/PROMPTS, with a line for each recording, and wav/ or flac/."""
    for path in tree.find('etc/PROMPTS'):
        session = path.parents[1]
        name = session.name.partition('-')[0]
        speaker = session.name if name.lower() == NOBODY else name
        for line, source in read_lines(path, fallback='latin-1'):
            label, _, words = line.partition(' ')
            recording = label.rpartition('/')[2]
            audio = session / 'wav' / f'{recording}.wav'
            if not audio.exists():
                audio = session / 'flac' / f'{recording}.flac'
            yield Utterance(f'{session.name}/{recording}', str(audio), words, source, speaker=speaker)


CORPUS = Corpus(
    name='VoxForge',
    layout='SESSION/etc/PROMPTS beside wav/ or flac/',
    source='http://www.voxforge.org/home/downloads',
    read=utterances,
    downloads=downloads,
    add_arguments=add_arguments,
)

if __name__ == '__main__':
    sys.exit(run(CORPUS, __doc__))
