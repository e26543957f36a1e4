"""Work shared out among real processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection

import pytest

from deepspeech_training.errors import DataError, JobError
from deepspeech_training.workers import TASKS_AHEAD, share_out, start_helper


class Square:
    """Remembers how many tasks its process has had."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, number: int) -> tuple[int, int, int]:
        self.count += 1
        time.sleep(0.002 * (number % 3))  # later tasks are done sooner
        return number * number, os.getpid(), self.count


def fail(number: int) -> int:
    if number == 3:
        raise DataError('three')
    return number


def die(number: int) -> int:
    if number == 3:
        os.abort()
    return number


def sleep(number: int) -> int:
    time.sleep(60 * number)
    return number


@pytest.mark.parametrize('processes', [1, 3])
def test_results_come_in_order(processes: int) -> None:
    results = list(share_out(Square(), range(60), processes))
    assert [square for square, _, _ in results] == [number * number for number in range(60)]
    pids = {pid for _, pid, _ in results}
    assert len(pids) == processes
    assert (os.getpid() in pids) == (processes == 1)
    last = {pid: count for _, pid, count in results}
    assert sum(last.values()) == 60, 'the object stays in its process'


def test_tasks_are_taken_as_they_are_needed() -> None:
    taken = []

    def tasks() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    results = share_out(Square(), tasks(), 2)
    for _ in range(10):
        next(results)
    assert len(taken) <= 10 + 2 * TASKS_AHEAD
    results.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


def test_an_error_is_raised_here() -> None:
    with pytest.raises(DataError, match='three'):
        list(share_out(fail, range(9), 2))
    assert multiprocessing.active_children() == []


def test_a_process_that_dies_is_named() -> None:
    with pytest.raises(JobError, match='was killed by signal 6'):
        list(share_out(die, range(9), 2))
    assert multiprocessing.active_children() == []


def test_what_a_dead_process_had_can_be_told_apart() -> None:
    results = list(share_out(die, range(9), 2, lambda task, how: -task if 'signal 6' in how else 99))
    assert results == [0, 1, 2, -3, 4, 5, 6, 7, 8]
    assert multiprocessing.active_children() == []


def test_nobody_waits_for_what_is_not_wanted() -> None:
    begin = time.monotonic()
    results = share_out(sleep, [0, 1], 2)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert time.monotonic() - begin < 30


def test_no_tasks() -> None:
    assert list(share_out(fail, [], 2)) == []


def tell_blocked(connection: Connection) -> None:
    connection.send(signal.pthread_sigmask(signal.SIG_BLOCK, []))


def test_ctrl_c_never_reaches_a_helper() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    process, connection = start_helper(tell_blocked)
    assert connection.recv() == before | {signal.SIGINT}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
    process.join()
