"""The contract tests of `tests/contract/` in real jobs: every process runs the same tests, with Horovod in between."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.jobs import lines_of, needs_horovod, run_job

ROOT = Path(__file__).resolve().parents[2]

WITH_TWO_TOWERS = 'by_hand or one_device or accumulated or every_sample or towers_on_their_devices'
WITH_THREE_RANKS = 'one_device or accumulated_batches or every_sample or same_seed or bad_sample'


@needs_horovod
@pytest.mark.parametrize(
    ('ranks', 'chosen', 'at_least'),
    [
        (2, f'horovod-2x1 or (horovod-2x2 and ({WITH_TWO_TOWERS}))', 65),
        (3, f'horovod-3x1 and ({WITH_THREE_RANKS})', 20),
    ],
)
def test_ranks_keep_the_contract(ranks: int, chosen: str, at_least: int) -> None:
    tests = [sys.executable, '-m', 'pytest', '-x', '-q', '-p', 'no:cacheprovider', 'tests/contract', '-k', chosen]
    result = run_job(ranks, tests, folder=ROOT, timeout=900)
    assert result.returncode == 0, result.stdout[-5000:]
    for rank in range(ranks):
        summary = lines_of(rank, result.stdout)[-1]
        passed = re.match(r'(\d+) passed', summary)
        assert passed, summary
        assert int(passed[1]) >= at_least
