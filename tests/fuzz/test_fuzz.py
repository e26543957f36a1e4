"""Wrong inputs by the thousand: taken right or named, never a traceback, a hang, or nonsense that is taken in silence.

`FUZZ_CASES=5000` runs as many in all, with `FUZZ_SEED` from another seed on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]
CASES = int(os.environ.get('FUZZ_CASES', '1400'))
FIRST_SEED = int(os.environ.get('FUZZ_SEED', '0'))
SHARES = {'audio': 5, 'csv': 3, 'json_lines': 2, 'containers': 2, 'alphabet': 2, 'augmentation': 3, 'flags': 3}


@pytest.mark.slow
@pytest.mark.parametrize('kind', KINDS)
def test_wrong_inputs(tmp_path: Path, kind: str) -> None:
    count = max(1, CASES * SHARES[kind] // sum(SHARES.values()))
    command = [sys.executable, '-X', 'faulthandler', '-m', 'tests.fuzz.run', kind, str(FIRST_SEED), str(count)]
    result = subprocess.run([*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode:
        seed = (tmp_path / 'seed').read_text() if (tmp_path / 'seed').exists() else 'none'
        pytest.fail(
            f'status {result.returncode} in case {seed} of {kind}, whose files are in {tmp_path}/{seed}\n'
            f'{result.stderr[-4000:]}'
        )
