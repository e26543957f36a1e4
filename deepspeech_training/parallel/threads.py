"""Towers that work in threads of their own and hand over their results one after the other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import tensorflow as tf

from deepspeech_training.parallel.strategy import Fetches, StepResult

RunStep = Callable[[Fetches | None], StepResult]
"""Runs one tower's next step; raises `tf.errors.OutOfRangeError` when there are no more batches for it."""


class TowerThreads:
    """One thread a tower, each running step after step, from the first `next_result` until the data end.

    A tower begins a step when the caller waits for a result, or when there is room: fewer results wait than there
    are other towers. So nobody is idle while the caller looks at a result, the towers cannot run away from a caller
    that is slow, and one tower alone does exactly the steps that are asked for.
    """

    def __init__(self, steps: Sequence[RunStep], fetches: Fetches | None = None) -> None:
        """`steps`: one a tower. `fetches`: for the first step that begins."""
        self._room = len(steps) - 1
        self._changed = threading.Condition()  # guards everything below
        self._results: deque[StepResult] = deque()
        self._fetches = fetches
        self._error: BaseException | None = None
        self._wanted = False
        self._stopped = False
        self._pauses = 0
        self._under_way = 0
        self._working = len(steps)
        # Daemons: a second Ctrl-C, while the steps under way are waited for, must be able to end the program.
        self._threads = [
            threading.Thread(target=self._work, args=(step,), name=f'tower_{tower}', daemon=True)
            for tower, step in enumerate(steps)
        ]
        for thread in self._threads:
            thread.start()

    def next_result(self, fetches: Fetches | None = None) -> StepResult:
        """Waits for the next step to end; `fetches` go to the next one that begins.

        When a step fails, the towers end after those that are under way; their results come first.
        Raises what the step raised, or `tf.errors.OutOfRangeError` when all towers are at the end of the data.
        """
        with self._changed:
            self._fetches = fetches or self._fetches
            self._wanted = True
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: self._results or not self._working)
            finally:
                self._wanted = False
            if self._results:
                result = self._results.popleft()
                self._changed.notify_all()
                return result
        self.stop()
        raise self._error or tf.errors.OutOfRangeError(None, None, 'All towers are at the end of the data.')

    @property
    def unused_fetches(self) -> Fetches | None:
        """Those that no step has taken yet."""
        return self._fetches

    @contextmanager
    def paused(self) -> Iterator[Sequence[StepResult]]:
        """Within it no step is under way. Gives the results that wait, which are kept."""
        with self._changed:
            self._pauses += 1
        try:
            with self._changed:
                self._changed.wait_for(lambda: not self._under_way)
                waiting = tuple(self._results)
            yield waiting
        finally:
            with self._changed:
                self._pauses -= 1
                self._changed.notify_all()

    def stop(self) -> None:
        """Ends the threads after the steps that are under way, and waits for that. Results that wait are dropped."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._results.clear()

    def _work(self, step: RunStep) -> None:
        """What a thread does."""
        try:
            while self._begin():
                fetches = self._take_fetches()
                try:
                    result = step(fetches)
                    with self._changed:
                        self._results.append(result)
                except tf.errors.OutOfRangeError:
                    self._give_back(fetches)
                    raise
                finally:
                    with self._changed:
                        self._under_way -= 1
                        self._changed.notify_all()
        except tf.errors.OutOfRangeError:
            pass
        except BaseException as error:  # whatever it is, the caller waits for it
            with self._changed:
                self._error = self._error or error
                self._stopped = True
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    def _begin(self) -> bool:
        """Waits until a tower may begin a step; False when it shall end."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._may_begin())
            if self._stopped:
                return False
            self._under_way += 1
            return True

    def _may_begin(self) -> bool:
        asked = self._wanted and not self._results
        return not self._pauses and (asked or len(self._results) < self._room)

    def _take_fetches(self) -> Fetches | None:
        with self._changed:
            fetches, self._fetches = self._fetches, None
            return fetches

    def _give_back(self, fetches: Fetches | None) -> None:
        with self._changed:
            self._fetches = self._fetches or fetches
