"""`bin/install_kenlm.sh`, and the programs that it has built."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache') / 'deepspeech-training' / 'kenlm'


def install(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ['bash', str(ROOT / 'bin' / 'install_kenlm.sh'), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_programs_that_are_there_are_taken() -> None:
    if not list(CACHE.glob('*/bin')):
        pytest.skip('KenLM is not built: bin/install_kenlm.sh does it, in some minutes')
    done = install()
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert {each.name for each in folder.iterdir()} == {'lmplz', 'filter', 'build_binary'}
    linked = subprocess.run(['ldd', str(folder / 'lmplz')], capture_output=True, text=True, check=True).stdout
    assert 'not found' not in linked


def test_wrong_usage() -> None:
    for arguments, message in (
        (['--pyton'], "unknown argument '--pyton'"),
        (['--python', 'none'], "no Python at 'none'"),
    ):
        done = install(*arguments)
        assert done.returncode == 2
        assert message in done.stderr
    assert 'lmplz, filter, build_binary' in install('--help').stdout
