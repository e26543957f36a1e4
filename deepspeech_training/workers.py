"""Work shared out among processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from deepspeech_training.errors import JobError

Task = TypeVar('Task')
Result = TypeVar('Result')

TASKS_AHEAD = 4  # for each process: enough to keep it busy, few enough to hold in memory


def share_out(work: Callable[[Task], Result], tasks: Iterable[Task], processes: int) -> Iterator[Result]:
    """What `work` makes of each task, in the order of the tasks, computed by some processes (1: by this one).

    `work` and the tasks must be known to pickle. Tasks are taken as they are needed. Where the caller stops early, by
    an error, Ctrl-C or on purpose, tasks under way are finished and the others are not begun.

    Raises what `work` raises, and `JobError` when a process dies.
    """
    if processes <= 1:
        yield from map(work, tasks)
        return
    context = multiprocessing.get_context('spawn')  # safe, whatever threads and libraries this process has
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin)
    pending: deque[Future[Result]] = deque()
    try:
        for task in tasks:
            pending.append(pool.submit(work, task))
            if len(pending) >= TASKS_AHEAD * processes:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool as error:
        raise JobError(
            'a working process was ended from outside, perhaps for want of memory; use fewer --processes'
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process, which ends the others
