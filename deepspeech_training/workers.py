"""Work shared out among processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Generic, TypeVar

from deepspeech_training.errors import JobError

Task = TypeVar('Task')
Result = TypeVar('Result')

TASKS_AHEAD = 4  # for each process: what is done early waits for what was asked before


def share_out(
    work: Callable[[Task], Result],
    tasks: Iterable[Task],
    processes: int,
    lost: Callable[[Task, str], Result] | None = None,
) -> Iterator[Result]:
    """What `work` makes of each task, in the order of the tasks, computed by some processes (1: by this one).

    `work` is sent to each process once, so that an object can keep there what it has opened; it, the tasks and the
    results must be known to pickle. Few tasks are taken in advance. Where the caller stops early, by an error,
    Ctrl-C or on purpose, the processes are ended, whatever they do.

    When a process dies, `lost` is asked for the result of its task, with what is known of its end, and another process
    takes its place.

    Raises what `work` raises, and without `lost` `JobError` when a process dies.
    """
    if processes <= 1:
        yield from map(work, tasks)
        return
    waiting = enumerate(tasks)
    done: dict[int, Result] = {}
    given = yielded = 0
    workers: list[_Worker[Task, Result]] = []
    busy: dict[Connection, _Worker[Task, Result]] = {}
    try:
        workers += [_Worker(work) for _ in range(processes)]
        idle = workers.copy()
        while True:
            while idle and given < yielded + TASKS_AHEAD * processes and idle[-1].give_next(waiting):
                worker = idle.pop()
                busy[worker.connection] = worker
                given += 1
            if not busy:
                break
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection)
                worker = busy.pop(connection)
                try:
                    done[worker.number] = worker.take()
                except JobError as error:
                    if lost is None:
                        raise
                    done[worker.number] = lost(worker.task, str(error))
                    worker = _Worker(work)
                    workers.append(worker)
                idle.append(worker)
            while yielded in done:
                yield done.pop(yielded)
                yielded += 1
    finally:
        for worker in workers:
            worker.end()


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1


def start_helper(target: Callable[..., None], *arguments: Any) -> tuple[SpawnProcess, Connection]:
    """Calls `target` in a process of its own, with `arguments` and one end of a connection; returns the other end too.

    Ctrl-C in a terminal is for all processes of a program, but the helper never gets it, not even while it starts: it
    is ended by the process that started it, and with it.
    """
    context = multiprocessing.get_context('spawn')  # safe, whatever threads and libraries this process has
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(*arguments, theirs), daemon=True)
    resource_tracker.ensure_running()  # would unblock the signal, if it were started together with the process
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which the new process inherits
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    theirs.close()
    return process, ours


def how_it_ended(name: str, process: SpawnProcess) -> str:
    """What is said of a helper that has ended too early: why, as far as that is known, and what may help."""
    process.join(5)
    code = process.exitcode
    how = f'was killed by signal {-code}' if code is not None and code < 0 else f'ended with status {code}'
    hint = '; perhaps there was not enough memory: use fewer --processes' if code == -signal.SIGKILL else ''
    return f'{name} {how}{hint}'


class _Worker(Generic[Task, Result]):
    """A process, seen from the one that started it."""

    number: int  # of its task
    task: Task

    def __init__(self, work: Callable[[Task], Result]) -> None:
        self._process, self.connection = start_helper(_serve, work)

    def give_next(self, waiting: Iterator[tuple[int, Task]]) -> bool:
        """Sends it the next task; false where there is none."""
        for self.number, self.task in waiting:
            with contextlib.suppress(OSError):  # it has died, which `take` tells
                self.connection.send(self.task)
            return True
        return False

    def take(self) -> Result:
        """What became of its task. Raises what `work` raised, and `JobError` where it has died."""
        result: Result
        try:
            result, error = self.connection.recv()
        except (EOFError, OSError):
            raise JobError(how_it_ended('a working process', self._process)) from None
        if error is not None:
            raise error
        return result

    def end(self) -> None:
        self.connection.close()
        self._process.terminate()
        self._process.join()


def _serve(work: Callable[[Any], Any], connection: Connection) -> None:
    """What the process does: answers each task, until the pipe is closed."""
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            task = connection.recv()
            try:
                result = work(task)
            except Exception as error:
                connection.send((None, error))
            else:
                connection.send((result, None))
