#!/usr/bin/env python3
"""Makes a language model of text with KenLM: the most frequent words, a pruned ARPA file, and its binary.

    python bin/generate_lm.py --input_txt sentences.txt.gz more.txt --output_dir lm --top_k 500000 --arpa_order 5 \\
        --max_arpa_memory 85% --arpa_prune '0|0|1' --binary_a_bits 255 --binary_q_bits 8 --binary_type trie

With --bytes_output_mode the words are the characters of the text, for models that write bytes.
Text has a sentence a line, without punctuation; of CSV files the column `transcript` counts. Writes vocab-TOP_K.txt,
lm.arpa and lm.binary, from which bin/generate_scorer_package.py makes a .scorer. KenLM's programs are built by
bin/install_kenlm.sh. Ends with status 2 when something is wrong with the input; earlier files are left then.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepspeech_training import log
from deepspeech_training.config import UNICODE_NORMALIZATIONS
from deepspeech_training.decoding.kenlm_programs import (
    A_BITS,
    BINARY_TYPE,
    Q_BITS,
    find_programs,
    make_binary,
    run_program,
)
from deepspeech_training.decoding.space_word import make_space_word
from deepspeech_training.errors import ScorerError
from deepspeech_training.programs import exit_status
from deepspeech_training.text.alphabet import normalize

SPECIAL = frozenset(('<s>', '</s>', '<unk>'))
"""Names that language models use themselves."""

SPACE = '\N{LOWER ONE EIGHTH BLOCK}'
"""Stands for the space where words are characters, as in other vocabularies."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    args = build_parser().parse_args(arguments)
    log.setup(1)
    return exit_status(lambda: run(args))


def run(args: argparse.Namespace) -> None:
    """Counts words and makes the model. Raises `UserError`."""
    try:
        check(args)
        generate(args)
    except OSError as error:
        raise ScorerError(f'{error.filename or args.output_dir}: {error.strerror or error}') from error


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument('--input_txt', required=True, nargs='+', help='text (.txt, .csv; also .gz), UTF-8')
    parser.add_argument('--output_dir', required=True, help='folder for the results')
    parser.add_argument('--top_k', type=int, default=500_000, help='how many words the model knows at most')
    parser.add_argument(
        '--bytes_output_mode', action='store_true', help='for models that write bytes: the words are characters'
    )
    parser.add_argument('--keep_case', action='store_true', help='capitals stay; else the text is made lower case')
    parser.add_argument(
        '--unicode_normalization', default='NFC', choices=UNICODE_NORMALIZATIONS, help="normal form, the model's"
    )
    parser.add_argument('--kenlm_bins', default='', help='folder of lmplz, filter and build_binary')
    parser.add_argument('--arpa_order', type=int, default=5, help='words that are looked at together')
    parser.add_argument('--max_arpa_memory', default='50%', help='memory for lmplz, as 80%% or 4G')
    parser.add_argument(
        '--arpa_prune', default='0|0|1', help='n-grams of 1, 2, ... words seen so often or less are left out'
    )
    parser.add_argument('--discount_fallback', action='store_true', help='for text too small to estimate discounts')
    parser.add_argument('--binary_a_bits', type=int, default=A_BITS, help='bits of compressed pointers, at most')
    parser.add_argument('--binary_q_bits', type=int, default=Q_BITS, help='bits of probabilities')
    parser.add_argument('--binary_type', default=BINARY_TYPE, choices=('trie', 'probing'), help='structure')
    return parser


def check(args: argparse.Namespace) -> None:
    """Raises `ScorerError` for what KenLM would not take, before any text is read."""
    for flag, least, most in (
        ('top_k', 1, 2**31),
        ('arpa_order', 2, 6),
        ('binary_a_bits', 1, 255),
        ('binary_q_bits', 2, 25),
    ):
        value = getattr(args, flag)
        if not least <= value <= most:
            raise ScorerError(f'--{flag}={value}: must be from {least} to {most}')
    counts = args.arpa_prune.split('|')
    if not all(count.isdecimal() for count in counts) or len(counts) > args.arpa_order or int(counts[0]):
        raise ScorerError(
            f"--arpa_prune={args.arpa_prune}: must be at most --arpa_order numbers, the first one 0, as '0|0|1'"
        )
    if sorted(map(int, counts)) != [int(count) for count in counts]:
        raise ScorerError(f'--arpa_prune={args.arpa_prune}: must not descend')
    if not re.fullmatch(r'\d+(\.\d+)?[%bKMGT]?', args.max_arpa_memory):
        raise ScorerError(f"--max_arpa_memory={args.max_arpa_memory}: must be as '80%' or '4G'")


def generate(args: argparse.Namespace) -> None:
    """Everything is made in a folder beside the results, which take their names in the end. Raises `UserError`."""
    programs = find_programs(args.kenlm_bins)
    output = Path(args.output_dir)
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output, prefix='.new-') as name:
        folder = Path(name)
        counter = count_words(args, folder / 'text')
        words = choose_words(counter, args.top_k)
        if args.bytes_output_mode:
            words = with_space_word(words, folder / 'text')
        vocabulary = folder / f'vocab-{args.top_k}.txt'
        vocabulary.write_text('\n'.join(words), encoding='utf-8')
        make_arpa(args, programs, folder, '\n'.join(words).encode())
        make_binary(
            programs,
            str(folder / 'lm.arpa'),
            str(folder / 'lm.binary'),
            a_bits=args.binary_a_bits,
            q_bits=args.binary_q_bits,
            kind=args.binary_type,
        )
        for path in (vocabulary, folder / 'lm.arpa', folder / 'lm.binary'):
            os.replace(path, output / path.name)
            log.info(f'{output / path.name}: {(output / path.name).stat().st_size} bytes')


def count_words(args: argparse.Namespace, text: Path) -> Counter[str]:
    """How often each word occurs; the sentences of all files go to `text`. Raises `ScorerError`."""
    counter: Counter[str] = Counter()
    with text.open('w', encoding='utf-8') as out:
        for path in args.input_txt:
            for number, sentence in enumerate(sentences(path), start=1):
                normal = normalize(sentence, args.unicode_normalization)
                words = (normal if args.keep_case else normal.lower()).split()
                if args.bytes_output_mode:
                    words = characters(words, f'--input_txt={path}, sentence {number}')
                if special := SPECIAL.intersection(words):
                    raise ScorerError(
                        f'--input_txt={path}: {min(special)!r} in sentence {number} is a name that language models '
                        'use themselves; leave it out'
                    )
                counter.update(words)
                if words:
                    out.write(' '.join(words) + '\n')
    if not counter:
        raise ScorerError(f'--input_txt={" ".join(args.input_txt)}: there are no words')
    return counter


def characters(words: list[str], place: str) -> list[str]:
    """Those of `words`, and `SPACE` between the words. Raises `ScorerError` that names the `place`."""
    if any(SPACE in word for word in words):
        raise ScorerError(f'{place}: has the character {SPACE!r}, which stands for the space; leave it out')
    return list(SPACE.join(words))


def with_space_word(words: list[str], text: Path) -> list[str]:
    """`words`, and in `text`, with the word for the space that their language model needs in place of `SPACE`."""
    others = [word for word in words if word != SPACE]
    if len(others) == len(words):
        return words
    space_word = make_space_word(others)
    changed = text.with_name('changed')
    with text.open(encoding='utf-8') as lines, changed.open('w', encoding='utf-8') as out:
        out.writelines(line.replace(SPACE, space_word) for line in lines)
    os.replace(changed, text)
    return [space_word if word == SPACE else word for word in words]


def sentences(path: str) -> Iterator[str]:
    """The lines of a text, or the transcripts of a CSV file, packed by gzip or not. Raises `ScorerError`."""
    try:
        with open(path, 'rb') as start:
            packed = start.read(2) == b'\x1f\x8b'
        with gzip.open(path) if packed else open(path, 'rb') as file:
            lines = io.TextIOWrapper(file, encoding='utf-8-sig')
            if not path.removesuffix('.gz').endswith('.csv'):
                yield from lines
                return
            table = csv.DictReader(lines)
            if 'transcript' not in (table.fieldnames or ()):
                raise ScorerError(f'--input_txt={path}: this CSV file has no column transcript')
            for row in table:
                yield row['transcript'] or ''
    except UnicodeDecodeError as error:
        raise ScorerError(f'--input_txt={path}: is not UTF-8 ({error.reason})') from error
    except (OSError, EOFError, csv.Error) as error:
        raise ScorerError(f'--input_txt={path}: {getattr(error, "strerror", None) or error}') from error


def choose_words(counter: Counter[str], top_k: int) -> list[str]:
    """The most frequent words, the most frequent first, and equally frequent ones by their letters."""
    words = sorted(counter, key=lambda word: (-counter[word], word))[:top_k]
    total = counter.total()
    known = sum(counter[word] for word in words)
    log.info(
        f'{total} words in the text, {len(counter)} different ones; the {len(words)} most frequent are '
        f'{100 * known / total:.2f}% of the text, the last of them ({words[-1]!r}) is there {counter[words[-1]]} times'
    )
    return words


def make_arpa(args: argparse.Namespace, programs: Path, folder: Path, vocabulary: bytes) -> None:
    """The pruned n-grams of the text, and of these the ones with no other words than `vocabulary`."""
    every = folder / 'all.arpa'
    command = [str(programs / 'lmplz'), '--order', str(args.arpa_order), '--temp_prefix', f'{folder}/']
    command += ['--memory', args.max_arpa_memory, '--text', str(folder / 'text'), '--arpa', str(every)]
    command += ['--prune', *args.arpa_prune.split('|')]
    command += ['--discount_fallback'] if args.discount_fallback else []
    run_program(command, 'the language model')
    command = [str(programs / 'filter'), 'single', f'model:{every}', str(folder / 'lm.arpa')]
    run_program(command, 'the language model of the most frequent words', vocabulary)
    every.unlink()


if __name__ == '__main__':
    sys.exit(main())
