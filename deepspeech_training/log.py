"""What the user reads while the program runs: log lines and progress, on standard error.

Results (transcripts, reports) are no log lines: they go to standard output and are printed by whoever makes them.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, Task

LOGGER = logging.getLogger('deepspeech_training')

LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
"""What `--log_level` 0, 1, 2 and 3 mean, as in DeepSpeech."""

SECONDS_BETWEEN_LINES = 5.0  # at least, where there is no terminal, so that short epochs print nothing
SECONDS_WITHOUT_LINE = 30.0  # at most
SHARE_BETWEEN_LINES = 0.1

COLUMNS_OF_NUMBERS = 46  # of the terminal, for what stands beside description and bar: counts, loss, rate, time left


class StderrHandler(logging.Handler):
    """Writes to whatever `sys.stderr` is at that moment, so that lines appear above a progress bar.

    `speaker`: who writes, at the start of each line; '' for a program that is alone.
    """

    speaker = ''

    def emit(self, record: logging.LogRecord) -> None:
        try:
            start = f'{record.levelname[0]} {self.speaker}: ' if self.speaker else f'{record.levelname[0]} '
            lines = self.format(record).splitlines() or ['']
            sys.stderr.write(''.join(f'{start}{line}\n' for line in lines))
            sys.stderr.flush()
        except BrokenPipeError:  # nobody reads any more; the work is worth more than the line
            pass
        except Exception:
            self.handleError(record)


def setup(level: int, speaker: str = '') -> None:
    """Shows log lines from `level` on: 0 debug, 1 info, 2 warnings, 3 errors. A second call changes the level.

    `speaker` is named in each line: 'rank 1 of 2 on host'.

    Raises `ValueError` for another level.
    """
    if level not in range(len(LEVELS)):
        raise ValueError(f'log level {level} is not one of 0, 1, 2, 3')
    LOGGER.setLevel(LEVELS[level])
    handlers = [handler for handler in LOGGER.handlers if isinstance(handler, StderrHandler)]
    if not handlers:
        handlers = [StderrHandler()]
        LOGGER.addHandler(handlers[0])
    handlers[0].speaker = speaker


def debug(message: str) -> None:
    LOGGER.debug('%s', message)


def info(message: str) -> None:
    LOGGER.info('%s', message)


def warn(message: str) -> None:
    LOGGER.warning('%s', message)


def error(message: str) -> None:
    LOGGER.error('%s', message)


@contextmanager
def native_messages_held(*telling: type[Exception]) -> Iterator[None]:
    """Holds back what libraries write to standard error below Python, as TensorFlow does before its log level counts.

    When an exception leaves the body that is not one of `telling`, which say enough themselves, it is shown after all;
    when the process ends, Python says where that was.
    """
    if sys.stderr is None:
        yield
        return
    sys.stderr.flush()
    python_stderr = sys.stderr
    with os.fdopen(os.dup(2), 'w') as real, tempfile.TemporaryFile('w+', errors='replace') as held:
        watched = faulthandler.is_enabled()
        if not watched:
            faulthandler.enable(real)
        os.dup2(held.fileno(), 2)
        if _descriptor(python_stderr) == 2:
            sys.stderr = real  # our own lines
        try:
            yield
        except telling:
            raise
        except Exception:
            held.seek(0)
            real.write(held.read())
            raise
        finally:
            real.flush()
            sys.stderr = python_stderr
            os.dup2(real.fileno(), 2)
            if not watched:
                faulthandler.disable()


def _descriptor(file: TextIO) -> int:
    try:
        return file.fileno()
    except (OSError, ValueError, AttributeError):
        return -1  # a test's, or a notebook's


class ProgressBar(Protocol):
    """What `progress` gives to the body of its `with` statement."""

    def advance(self, n: float = 1, **fields: float | str) -> None:
        """`n` more of the total are done; `fields` (loss=12.3) are shown until they are given again."""


@contextmanager
def progress(description: str, total: float | None, enabled: bool = True) -> Iterator[ProgressBar]:
    """Shows how far `total` steps, samples or files have come, how fast, and how long the rest takes.

    A bar on a terminal; elsewhere a log line now and then (info level); nothing when not `enabled`.
    `total` may be None where the end is not known.
    """
    if not enabled:
        yield _Silence()
    elif (console := _terminal()) is not None:
        bar_width = 40 if console.width >= 120 else 20
        shown = _shortened(description, max(16, console.width - bar_width - COLUMNS_OF_NUMBERS))
        with _rich_progress(console, bar_width) as bar:
            yield _TerminalBar(bar, shown, total)
    else:
        lines = _PlainLines(description, total)
        yield lines
        lines.finish()


class _Silence:
    def advance(self, n: float = 1, **fields: float | str) -> None:
        pass


class _PlainLines:
    """A log line after each tenth of the total or half a minute, but not one after the other."""

    def __init__(self, description: str, total: float | None) -> None:
        self._description = description
        self._total = total
        self._done = 0.0
        self._fields: dict[str, float | str] = {}
        self._start = self._last_time = time.monotonic()
        self._last_done = 0.0

    def advance(self, n: float = 1, **fields: float | str) -> None:
        self._done += n
        self._fields.update(fields)
        silence = time.monotonic() - self._last_time
        step = SHARE_BETWEEN_LINES * self._total if self._total else float('inf')
        much = self._done - self._last_done >= step
        if silence >= SECONDS_WITHOUT_LINE or (much and silence >= SECONDS_BETWEEN_LINES):
            self._line()

    def finish(self) -> None:
        """Ends what earlier lines began; a short run that printed none stays silent."""
        if 0 < self._last_done < self._done:
            self._line()

    def _line(self) -> None:
        self._last_time, self._last_done = time.monotonic(), self._done
        elapsed = self._last_time - self._start
        rate = self._done / elapsed if elapsed > 0 else 0.0
        parts = [self._counts(), *_field_texts(self._fields), _rate_text(rate)]
        if self._total and rate and self._done < self._total:
            parts.append(f'{_duration_text((self._total - self._done) / rate)} left')
        info(f'{self._description}: {", ".join(parts)}')

    def _counts(self) -> str:
        if not self._total:
            return f'{self._done:g}'
        return f'{self._done:g}/{self._total:g} ({100 * self._done / self._total:.0f}%)'


class _TerminalBar:
    def __init__(self, bar: Progress, description: str, total: float | None) -> None:
        self._bar = bar
        self._fields: dict[str, float | str] = {}
        self._task = bar.add_task(description, total=total, shown='')

    def advance(self, n: float = 1, **fields: float | str) -> None:
        self._fields.update(fields)
        self._bar.update(self._task, advance=n, shown='  '.join(_field_texts(self._fields)))


def _terminal() -> Console | None:
    """Standard error as a terminal that can redraw a line, or None."""
    if not (hasattr(sys.stderr, 'isatty') and sys.stderr.isatty()):
        return None
    from rich.console import Console  # only here: rich takes a tenth of a second to import

    console = Console(stderr=True)
    return None if console.is_dumb_terminal else console


def _rich_progress(console: Console, bar_width: int) -> Progress:
    from rich import progress as rich_progress
    from rich.text import Text

    class Rate(rich_progress.ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(_rate_text(speed) if speed else '', style='progress.data.speed')

    columns: list[Any] = [
        rich_progress.TextColumn('{task.description}', markup=False),
        rich_progress.BarColumn(bar_width),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TextColumn('{task.fields[shown]}', markup=False),
        Rate(),
        rich_progress.TimeRemainingColumn(elapsed_when_finished=True),
    ]
    # Standard output is left alone: results printed there may go to a file.
    return rich_progress.Progress(*columns, console=console, redirect_stdout=False, refresh_per_second=4)


def _shortened(text: str, width: int) -> str:
    """`text` in `width` columns: beginning and end, where kind of work and file name stand."""
    if len(text) <= width:
        return text
    end = width // 2
    return f'{text[: width - end - 1]}…{text[-end:]}'


def _field_texts(fields: dict[str, float | str]) -> list[str]:
    return [f'{name} {value}' if isinstance(value, str) else f'{name} {value:.6g}' for name, value in fields.items()]


def _rate_text(rate: float) -> str:
    """A rate of one or more a second, or the seconds that one takes."""
    return f'{rate:.3g}/s' if rate >= 1 or rate <= 0 else f'{1 / rate:.3g} s each'


def _duration_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f'{hours}:{minutes:02}:{rest:02}'
