"""The contract tests of `tests/contract/` in real jobs: every process runs the same tests, with Horovod in between."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.jobs import lines_of, needs_horovod, run_job

ROOT = Path(__file__).resolve().parents[2]

TWO_RANKS = (
    '(horovod-2x1 and not sharded and not bfloat16)'
    ' or (horovod-2x1-sharded and'
    ' (one_device or accumulated_batches or above_the_limit or overflow or frozen or probe))'
    ' or (horovod-2x2 and (one_device or every_sample))'
)
THREE_RANKS = (
    'horovod-3x1 and ((one_device and not sharded) or (accumulated_batches and sharded) or every_sample or'
    ' same_seed or one_bad_sample)'
)
"""What is chosen from the tests; all of them would take twice as long."""


@needs_horovod
@pytest.mark.parametrize(('ranks', 'chosen', 'at_least'), [(2, TWO_RANKS, 70), (3, THREE_RANKS, 18)])
def test_ranks_keep_the_contract(ranks: int, chosen: str, at_least: int) -> None:
    tests = [sys.executable, '-m', 'pytest', '-x', '-q', '-p', 'no:cacheprovider', 'tests/contract', '-k', chosen]
    result = run_job(ranks, tests, folder=ROOT, timeout=900)
    assert result.returncode == 0, result.stdout[-5000:]
    for rank in range(ranks):
        summary = lines_of(rank, result.stdout)[-1]
        passed = re.match(r'(\d+) passed', summary)
        assert passed, summary
        assert int(passed[1]) >= at_least
