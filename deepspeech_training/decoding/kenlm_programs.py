"""Runs KenLM's programs, which make language models; `bin/install_kenlm.sh` builds them."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from pathlib import Path

from deepspeech_training.decoding.scorer_file import GZIP_MAGIC, KENLM_MAGIC
from deepspeech_training.errors import ScorerError

PROGRAMS = ('lmplz', 'filter', 'build_binary')
A_BITS, Q_BITS, BINARY_TYPE = 255, 8, 'trie'
"""What DeepSpeech makes its language models with: bits of compressed pointers (at most), of probabilities."""


def find_programs(folder: str = '') -> Path:
    """The folder with KenLM's programs: `folder` (--kenlm_bins), or one in PATH, or that of bin/install_kenlm.sh.

    Raises `ScorerError` where they are not.
    """
    if folder:
        missing = [name for name in PROGRAMS if not shutil.which(name, path=folder)]
        if missing:
            raise ScorerError(f'--kenlm_bins={folder}: there is no program {" or ".join(missing)} of KenLM in it')
        return Path(folder)
    cache = Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache') / 'deepspeech-training' / 'kenlm'
    in_path = [Path(each) for each in os.environ.get('PATH', '').split(os.pathsep) if each]
    for candidate in (*in_path, *sorted(cache.glob('*/bin'), reverse=True)):
        if all(shutil.which(name, path=str(candidate)) for name in PROGRAMS):
            return candidate
    raise ScorerError(
        f"KenLM's programs {', '.join(PROGRAMS)} are not there: run bin/install_kenlm.sh, which builds them, or name "
        'their folder with --kenlm_bins'
    )


def run_program(command: list[str], what: str, words: bytes | None = None) -> None:
    """Runs `command` with `words` as its input. Raises `ScorerError` with its last words where it fails."""
    try:
        done = subprocess.run(command, input=words or b'', capture_output=True, check=False)
    except OSError as error:
        raise ScorerError(f'{what}: {command[0]} does not run: {error.strerror}') from error
    if done.returncode:
        said = [line.strip() for line in done.stderr.decode(errors='replace').splitlines()]
        said = [line for line in said if line.strip('*-0123456789') not in ('', 'ERROR')]  # without progress bars
        reason = ' '.join(said[-3:]) or f'status {done.returncode}'
        if 'discount_fallback' in reason:
            reason = 'the text is too small or too uniform to estimate discounts from; give --discount_fallback'
        raise ScorerError(f'{what}: KenLM cannot make it: {reason}')


def make_binary(
    programs: Path, arpa: str, binary: str, *, a_bits: int = A_BITS, q_bits: int = Q_BITS, kind: str = BINARY_TYPE
) -> None:
    """A KenLM binary of an ARPA file, without the names of its words, as `.scorer` files have them.

    `a_bits` and `q_bits` are for tries; `kind` is trie or probing. Raises `ScorerError`.
    """
    bits = ['-a', str(a_bits), '-q', str(q_bits)] if kind == 'trie' else []
    run_program([str(programs / 'build_binary'), *bits, '-v', kind, arpa, binary], f'the binary of {arpa}')


def as_binary(path: str, folder: str, kenlm_bins: str = '') -> str:
    """`path` if it is a KenLM binary, else the path of one that is made of it, an ARPA file, in `folder`.

    Raises `ScorerError`.
    """
    try:
        with open(path, 'rb') as file:
            start = file.read(len(KENLM_MAGIC))
        if start == KENLM_MAGIC:
            return path
        arpa = path
        with gzip.open(path) if start.startswith(GZIP_MAGIC) else open(path, 'rb') as file:
            if not file.read(100).lstrip().startswith(b'\\data\\'):
                raise ScorerError(f'--lm={path}: is neither a KenLM binary nor an ARPA file')
            if start.startswith(GZIP_MAGIC):
                arpa = os.path.join(folder, 'lm.arpa')
                file.seek(0)
                with open(arpa, 'wb') as unpacked:
                    shutil.copyfileobj(file, unpacked)
    except (OSError, EOFError) as error:
        raise ScorerError(f'--lm={path}: {getattr(error, "strerror", None) or error}') from error
    binary = os.path.join(folder, 'lm.binary')
    make_binary(find_programs(kenlm_bins), arpa, binary)
    return binary
