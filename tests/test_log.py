"""Log lines and progress, as they arrive on standard error."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator

import pytest

from deepspeech_training import log


@pytest.fixture(autouse=True)
def _log_level() -> Iterator[None]:
    log.setup(1)
    yield
    log.setup(1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that `log` sees, in the list's only element; a test moves it on."""
    now = [1000.0]
    monkeypatch.setattr(log.time, 'monotonic', lambda: now[0])
    return now


@pytest.mark.parametrize(('level', 'shown'), [(0, 'DIWE'), (1, 'IWE'), (2, 'WE'), (3, 'E')])
def test_level_decides_what_is_shown(level: int, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    log.setup(level)
    log.debug('d')
    log.info('i')
    log.warn('w')
    log.error('e')
    assert [line[0] for line in capsys.readouterr().err.splitlines()] == list(shown)


@pytest.mark.parametrize('level', [-1, 4])
def test_other_levels_are_refused(level: int) -> None:
    with pytest.raises(ValueError, match='0, 1, 2, 3'):
        log.setup(level)


def test_each_line_is_marked_and_percent_signs_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    log.error('100%s of\nthe lines')
    captured = capsys.readouterr()
    assert captured.err == 'E 100%s of\nE the lines\n'
    assert captured.out == ''


def test_the_speaker_is_named_in_each_line(capsys: pytest.CaptureFixture[str]) -> None:
    log.setup(1, 'rank 1 of 2 on host')
    log.warn('two\nlines')
    log.setup(1)
    log.warn('alone')
    assert capsys.readouterr().err == 'W rank 1 of 2 on host: two\nW rank 1 of 2 on host: lines\nW alone\n'


def test_setup_twice_does_not_write_twice(capsys: pytest.CaptureFixture[str]) -> None:
    log.setup(1)
    log.setup(0)
    log.info('once')
    assert capsys.readouterr().err == 'I once\n'


def test_plain_progress_says_how_far_how_fast_how_long(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    with log.progress('Training', 100) as bar:
        for _ in range(100):
            clock[0] += 1
            bar.advance(1, loss=2.5)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == 'I Training: 10/100 (10%), loss 2.5, 1/s, 0:01:30 left'
    assert lines[-1] == 'I Training: 100/100 (100%), loss 2.5, 1/s'
    assert len(lines) == 10


def test_plain_progress_of_slow_steps_speaks_every_half_minute(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    with log.progress('Training', 1000) as bar:
        for _ in range(10):
            clock[0] += 10
            bar.advance()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == 'I Training: 3/1000 (0%), 10 s each, 2:46:10 left'
    assert [line.split('/')[0] for line in lines] == [f'I Training: {n}' for n in (3, 6, 9, 10)]


def test_plain_progress_of_a_fast_run_is_silent(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    with log.progress('Training', 100) as bar:
        for _ in range(100):
            clock[0] += 0.01
            bar.advance()
    assert capsys.readouterr().err == ''


def test_plain_progress_without_a_known_end(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    with log.progress('Reading', None) as bar:
        clock[0] += 40
        bar.advance(80)
    assert capsys.readouterr().err == 'I Reading: 80, 2/s\n'


def test_disabled_progress_shows_nothing(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    with log.progress('Training', 10, enabled=False) as bar:
        clock[0] += 100
        bar.advance(10, loss=1.0)
    assert capsys.readouterr().err == ''


@pytest.mark.parametrize(
    ('width', 'expected'),
    [(40, 'Epoch 0 | Validation | folder/dev.csv'), (20, 'Epoch 0 |…er/dev.csv'), (21, 'Epoch 0 | …er/dev.csv')],
)
def test_long_descriptions_keep_beginning_and_end(width: int, expected: str) -> None:
    shown = log._shortened('Epoch 0 | Validation | folder/dev.csv', width)
    assert shown == expected
    assert len(shown) <= width


TERMINAL_PROGRAM = """
from deepspeech_training import log
log.setup(1)
with log.progress('Training epoch 0', 4) as bar:
    for i in range(4):
        bar.advance(1, loss=1.5)
    log.warn('odd [thing]')
print('the result')
"""


def test_bar_on_a_terminal_leaves_standard_output_alone() -> None:
    parent, child = pty.openpty()
    environment = {**os.environ, 'TERM': 'xterm', 'COLUMNS': '120'}
    process = subprocess.Popen(
        [sys.executable, '-c', TERMINAL_PROGRAM], stdout=subprocess.PIPE, stderr=child, env=environment
    )
    os.close(child)
    shown = b''
    while True:
        try:
            part = os.read(parent, 4096)
        except OSError:  # how Linux reports that the other side has closed
            break
        if not part:
            break
        shown += part
    os.close(parent)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert output == b'the result\n'
    text = shown.decode()
    assert 'W odd [thing]' in text
    assert 'Training epoch 0' in text
    assert '4/4' in text
    assert 'loss 1.5' in text


def test_what_libraries_write_is_held_back_until_it_is_needed(capfd: pytest.CaptureFixture[str]) -> None:
    def fail(error: Exception) -> None:
        with log.native_messages_held(ValueError):
            os.write(2, b'chatter\n')
            raise error

    with log.native_messages_held():
        os.write(2, b'chatter\n')
        print('ours', file=sys.stderr)
    assert capfd.readouterr().err == 'ours\n'
    with pytest.raises(RuntimeError):
        fail(RuntimeError())
    assert capfd.readouterr().err == 'chatter\n'
    with pytest.raises(ValueError, match='says it all'):
        fail(ValueError('says it all'))
    assert capfd.readouterr().err == ''
