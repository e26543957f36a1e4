#!/usr/bin/env python3
"""Makes a .scorer, as DeepSpeech's and Coqui STT's clients load it, of a language model, its words and an alphabet.

    python bin/generate_scorer_package.py --alphabet data/alphabet.txt --lm lm.binary --vocab vocab-500000.txt \\
        --package kenlm.scorer --default_alpha 0.93 --default_beta 1.18

Where all words are single characters, it is a scorer for models of bytes (--bytes_output_mode), which needs no
alphabet; --force_bytes_output_mode decides otherwise. The language model is a KenLM binary, an ARPA file, or that of
another .scorer. Ends with status 2 when something is wrong with the input; what the package was before is left then.
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
from deepspeech_training.decoding.space_word import SPACE_WORD
from deepspeech_training.errors import ScorerError
from deepspeech_training.programs import exit_status
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.byte_alphabet import ByteAlphabet


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    args = build_parser().parse_args(arguments)
    log.setup(1)
    return exit_status(lambda: make_package(args))


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument('--alphabet', default='', help='alphabet file of the acoustic model, unless that writes bytes')
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
        default='auto',
        choices=('true', 'false', 'auto'),
        help='for models that write bytes of UTF-8; not given: if all words are single characters',
    )
    parser.add_argument('--kenlm_bins', default='', help='folder of build_binary, which an ARPA file needs')
    return parser


def make_package(args: argparse.Namespace) -> None:
    """Raises `UserError`."""
    for flag in ('default_alpha', 'default_beta'):
        if not math.isfinite(getattr(args, flag)):
            raise ScorerError(f'--{flag}={getattr(args, flag)}: must be a number')
    alphabet = Alphabet.from_file(args.alphabet) if args.alphabet else None
    words = read_words(args.vocab) if args.vocab else None
    with tempfile.TemporaryDirectory() as folder:
        model = read_language_model(as_binary(args.lm, folder, args.kenlm_bins))
        words = own_words(args.lm, model) if words is None else words
        alphabet = choose_alphabet(args, alphabet, words)
        lexicon = make_lexicon(words, model, alphabet)
        weights = args.default_alpha, args.default_beta
        write_scorer_package(
            *(args.package, model, lexicon.automaton, *weights),
            for_bytes=alphabet.of_bytes,
            space_word=lexicon.space_word,
        )
    for left_out, why in (
        (lexicon.not_in_alphabet, f'cannot be written with {alphabet.path}'),
        (lexicon.not_in_model, f'are unknown to {args.lm}'),
    ):
        if left_out:
            log.warn(f'{len(left_out)} words {why} and are left out: {", ".join(map(repr, left_out[:5]))}')
    log.info(
        f'{args.package}: {lexicon.words} {"characters" if alphabet.of_bytes else "words"} in '
        f'{len(lexicon.automaton.final)} states, alpha {args.default_alpha}, beta {args.default_beta}'
    )


def choose_alphabet(args: argparse.Namespace, alphabet: Alphabet | None, words: list[str]) -> Alphabet:
    """Bytes where that is asked for, or all `words` are single characters. Raises `ScorerError`."""
    longer = next((word for word in words if len(word) > 1 and not SPACE_WORD.fullmatch(word)), None)
    for_bytes = longer is None if args.force_bytes_output_mode == 'auto' else args.force_bytes_output_mode == 'true'
    if for_bytes and longer is not None:
        raise ScorerError(
            f'--force_bytes_output_mode: for models of bytes, the words must be single characters, and {longer!r} is '
            'not; make the language model with bin/generate_lm.py --bytes_output_mode'
        )
    if not for_bytes and alphabet is None:
        raise ScorerError('--alphabet is missing; only scorers for models of bytes (--bytes_output_mode) need none')
    if args.force_bytes_output_mode == 'auto' and words:
        kind = 'single characters: a scorer for models of bytes (--bytes_output_mode)'
        log.info(f'The words are {kind if for_bytes else "no single characters: a scorer for models with an alphabet"}')
    return ByteAlphabet() if for_bytes or alphabet is None else alphabet


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
