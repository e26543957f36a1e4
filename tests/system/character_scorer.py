"""A scorer for models of bytes, made with KenLM's programs as users make it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import generate_lm
import generate_scorer_package
import pytest

from deepspeech_training.decoding.kenlm_programs import find_programs
from deepspeech_training.errors import ScorerError


def scorer_of_characters(sentences: Sequence[str], folder: Path) -> str:
    """Its path; skips the test where KenLM's programs are not."""
    try:
        find_programs()
    except ScorerError as error:
        pytest.skip(str(error))
    (folder / 'sentences.txt').write_text('\n'.join(sentences), encoding='utf-8')
    flags = ['--bytes_output_mode', '--discount_fallback', '--max_arpa_memory', '200M', '--arpa_prune', '0']
    lm = folder / 'lm'
    assert generate_lm.main(['--input_txt', str(folder / 'sentences.txt'), '--output_dir', str(lm), *flags]) == 0
    made = ['--lm', str(lm / 'lm.binary'), '--vocab', str(lm / 'vocab-500000.txt')]
    package = str(folder / 'characters.scorer')
    assert generate_scorer_package.main([*made, '--package', package]) == 0
    return package
