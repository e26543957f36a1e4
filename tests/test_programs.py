"""How tools end."""

from __future__ import annotations

import subprocess
import sys

import pytest

from deepspeech_training.errors import DataError, UserError
from deepspeech_training.programs import exit_status


def test_what_the_work_returns() -> None:
    assert exit_status(lambda: 1) == 1
    assert exit_status(lambda: None) == 0


@pytest.mark.parametrize(
    ('error', 'status', 'told'),
    [
        (DataError('train.csv: is empty'), UserError.exit_status, 'train.csv: is empty'),
        (KeyboardInterrupt(), 130, 'Interrupted; the same command goes on'),
    ],
)
def test_what_goes_wrong_is_told(
    error: BaseException, status: int, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        raise error

    assert exit_status(work, 'Interrupted; the same command goes on') == status
    assert [record.getMessage() for record in caplog.records] == [told]


def test_what_is_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        exit_status(lambda: 1 // 0)


def test_nobody_reads() -> None:
    program = (
        'import sys\nfrom deepspeech_training.programs import exit_status\n'
        "sys.exit(exit_status(lambda: [print('line' * 1000, flush=True) for _ in range(100)] and None))"
    )
    with subprocess.Popen([sys.executable, '-c', program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b''
    assert process.returncode == 1
