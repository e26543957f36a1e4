"""Writes in the background, one thing at a time, so that training waits for the copy of its variables only."""

from __future__ import annotations

import threading
from collections.abc import Callable


class BackgroundWriter:
    """Runs one job after another in a thread of its own.

    What a job raises is raised by the next `submit`, `check` or `wait`: a checkpoint that could not be written must
    not go unnoticed.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def submit(self, job: Callable[[], None]) -> None:
        """Starts `job` when the one before is done, which it waits for."""
        self.wait()
        self._thread = threading.Thread(target=self._run, args=(job,), name='checkpoint-writer')
        self._thread.start()

    def check(self) -> None:
        """Raises what a job has raised; does not wait."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def wait(self) -> None:
        """Returns when nothing is being written any more."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()

    def _run(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            self._error = error
