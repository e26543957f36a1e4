#!/usr/bin/env python3
"""Makes a .scorer, as DeepSpeech's and Coqui STT's clients load it, of a language model, its words and an alphabet.

    python bin/generate_scorer_package.py --alphabet data/alphabet.txt --lm lm.binary --vocab vocab-500000.txt \\
        --package kenlm.scorer --default_alpha 0.93 --default_beta 1.18

The language model is a KenLM binary, an ARPA file, or that of another .scorer. Ends with status 2 when something is
wrong with the input; what the package was before is left then.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepspeech_training import log
from deepspeech_training.config import LM_ALPHA, LM_BETA
from deepspeech_training.decoding.kenlm_programs import as_binary
from deepspeech_training.decoding.scorer_file import read_scorer_file
from deepspeech_training.decoding.scorer_package import (
    LanguageModel,
    make_lexicon,
    read_language_model,
    write_scorer_package,
)
from deepspeech_training.errors import ScorerError, UserError
from deepspeech_training.text.alphabet import Alphabet


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    args = build_parser().parse_args(arguments)
    log.setup(1)
    try:
        make_package(args)
    except UserError as error:
        log.error(str(error))
        return error.exit_status
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument('--alphabet', required=True, help='alphabet file of the acoustic model')
    parser.add_argument('--lm', required=True, help='KenLM binary, ARPA file (also .gz) or .scorer')
    parser.add_argument(
        '--vocab', default='', help='text of all words that the decoder may write; not given: those of --lm'
    )
    parser.add_argument('--package', required=True, help='the .scorer to write')
    parser.add_argument('--default_alpha', type=float, default=LM_ALPHA, help='weight of the language model')
    parser.add_argument('--default_beta', type=float, default=LM_BETA, help='reward for each word')
    parser.add_argument(
        '--force_bytes_output_mode',
        nargs='?',
        const='true',
        default='false',
        choices=('true', 'false'),
        help='not supported yet: for models that write bytes of UTF-8',
    )
    parser.add_argument('--kenlm_bins', default='', help='folder of build_binary, which an ARPA file needs')
    return parser


def make_package(args: argparse.Namespace) -> None:
    """Raises `UserError`."""
    if args.force_bytes_output_mode == 'true':
        raise ScorerError('--force_bytes_output_mode: scorers of bytes are not supported yet')
    for flag in ('default_alpha', 'default_beta'):
        if not math.isfinite(getattr(args, flag)):
            raise ScorerError(f'--{flag}={getattr(args, flag)}: must be a number')
    alphabet = Alphabet.from_file(args.alphabet)
    words = read_words(args.vocab) if args.vocab else None
    with tempfile.TemporaryDirectory() as folder:
        model = read_language_model(as_binary(args.lm, folder, args.kenlm_bins))
        lexicon = make_lexicon(own_words(args.lm, model) if words is None else words, model, alphabet)
        write_scorer_package(args.package, model, lexicon.automaton, args.default_alpha, args.default_beta)
    for left_out, why in (
        (lexicon.not_in_alphabet, f'have characters that {args.alphabet} lacks'),
        (lexicon.not_in_model, f'are unknown to {args.lm}'),
    ):
        if left_out:
            log.warn(f'{len(left_out)} words {why} and are left out: {", ".join(map(repr, left_out[:5]))}')
    log.info(
        f'{args.package}: {lexicon.words} words in {len(lexicon.automaton.final)} states, alpha {args.default_alpha}, '
        f'beta {args.default_beta}'
    )


def read_words(path: str) -> list[str]:
    """The words of a text. Raises `ScorerError`."""
    try:
        return Path(path).read_text(encoding='utf-8-sig').split()
    except OSError as error:
        raise ScorerError(f'--vocab={path}: {error.strerror}') from error
    except UnicodeDecodeError as error:
        raise ScorerError(f'--vocab={path}: is not UTF-8 (byte {error.start})') from error


def own_words(path: str, model: LanguageModel) -> list[str]:
    """Those of an ARPA file, or of a binary that has them. Raises `ScorerError`."""
    if model.path != path:  # made of an ARPA file
        return list(read_scorer_file(path).words)
    if model.words is None:
        raise ScorerError(f'--lm={path}: does not have the names of its words; give them with --vocab')
    return list(model.words)


if __name__ == '__main__':
    sys.exit(main())
