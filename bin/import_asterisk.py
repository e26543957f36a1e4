#!/usr/bin/env python3
"""Imports the prompts of the Asterisk telephone exchange: one speaker a language, at 8 kHz.

    python bin/import_asterisk.py data/prompts-ru --language ru --sample_rate 8000
    python bin/import_asterisk.py data/prompts-en --archive asterisk-core-sounds-en_*.deb \\
        asterisk-core-sounds-en-wav_*.deb

Of Debian's packages, NAME-wav has the sounds and NAME the texts.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepspeech_training.errors import DataError
from deepspeech_training.importing.corpus import Corpus, Download, Tree, Utterance, read_lines
from deepspeech_training.importing.program import run

ADDRESS = 'http://deb.debian.org/debian/pool/main/a/asterisk-core-sounds/asterisk-core-sounds-{}_1.6.1-1_all.deb'
SHA256 = {
    'en': '973e797d28e37fa6ca3c0a9d6fa717e77cf1268ae916bf09fd3503113cdffa50',
    'en-wav': '2be3ea287d83299d143815fa804f11179a75b7affd4a758b98b55f5afc18a35d',
    'es': '9afdab7f559f036649fb406e625899306ca1004df8ebe39c30bfbd5912d66f74',
    'es-wav': '9283a09a6d56fccdcc2bcfe86c48f0f844289cfbd46a3184d8785a6f7f569903',
    'fr': '04c82c78c570c43a7136cbc5e2488d0c470b775468dff9fbce4a131b18cf1056',
    'fr-wav': '8d4e1bc32ed5ba7fbda40841ca1825ed20cc6232724a473c90f8bb0e53e6073e',
    'it': '3884d9457e12f21caa018c18f0d587df5d53ebea14b673d8453a134c5941ab3b',
    'it-wav': '5a26638089e134b8ac39363fe249c5c93c50cd8bfdc9b2499ae61ec4a35e2fcb',
    'ru': '28a61616bb0cd3345a7ea532dec4df9f071e5d0fa9f8c1a563ea9669002f39ab',
    'ru-wav': 'ccbfaebfa450b7a9ddf644ae0f3d1e9017d5df7c0aebe816e946345589d38201',
}
LANGUAGES = tuple(name for name in SHA256 if '-' not in name)


def add_arguments(parser: ArgumentParser) -> None:
    """Of this importer alone."""
    parser.add_argument('--language', choices=LANGUAGES, default='en', help='what is downloaded (default: %(default)s)')


def downloads(args: Namespace) -> list[Download]:
    """Two packages for each language."""
    names = (args.language, f'{args.language}-wav')
    return [Download(ADDRESS.format(name), checksum=f'sha256:{SHA256[name]}') for name in names]


def utterances(tree: Tree, args: Namespace) -> Iterator[Utterance]:
    """Lines of the text are 'digits/1: one', with the name of a sound without suffix, and comments begin with ';'."""
    prompts: dict[str, tuple[str, str]] = {}
    languages = set()
    for path in tree.find('*-sounds-*.txt*'):
        languages |= set(re.findall(r'-sounds-([a-z]+)', path.name))
        for line, source in read_lines(path):
            name, colon, words = line.partition(':')
            if colon and not line.startswith(';'):
                prompts[name.strip()] = words.strip(), source
    if len(languages) > 1:
        raise DataError(f'there are prompts in {", ".join(sorted(languages))}: import one language at a time')
    folder = sound_folder(tree, prompts)
    if folder is not None:
        for name, (words, source) in prompts.items():
            yield Utterance(name, str(folder / f'{name}.wav'), words, source)


def sound_folder(tree: Tree, prompts: dict[str, tuple[str, str]]) -> Path | None:
    """The folder below which most prompts have a sound of their name."""
    found: Counter[Path] = Counter()
    for path in tree.find('*.wav'):
        for folder in list(path.parents)[:3]:
            found[folder] += path.relative_to(folder).with_suffix('').as_posix() in prompts
    best = found.most_common(1)
    return best[0][0] if best and best[0][1] else None


CORPUS = Corpus(
    name='Asterisk prompts',
    layout='core-sounds-LANGUAGE.txt with .wav files of the names in it: both packages are needed',
    source='https://packages.debian.org/source/stable/asterisk-core-sounds',
    read=utterances,
    downloads=downloads,
    add_arguments=add_arguments,
)

if __name__ == '__main__':
    sys.exit(run(CORPUS, __doc__))
