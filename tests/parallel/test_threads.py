from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import tensorflow as tf

from deepspeech_training.parallel.strategy import Fetches, StepOps, StepResult
from deepspeech_training.parallel.threads import TowerThreads


class Tower:
    """Steps that do nothing but count themselves; behind the `last` there are no data."""

    def __init__(self, name: str, last: int = 1000, before: Callable[[], object] | None = None) -> None:
        self.begun = 0
        self._name = name
        self._last = last
        self._before = before

    def __call__(self, fetches: Fetches | None) -> StepResult:
        if self.begun == self._last:
            raise tf.errors.OutOfRangeError(None, None, 'no more')
        self.begun += 1
        if self._before is not None:
            self._before()
        return StepResult(0.0, 1, [f'{self._name}{self.begun}'], {}, fetched=fetches)


@contextmanager
def running(*towers: Tower) -> Iterator[TowerThreads]:
    threads = TowerThreads(towers)
    try:
        yield threads
    finally:
        threads.stop()


def names(results: list[StepResult]) -> list[str]:
    return [name for result in results for name in result.bad_names]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_all_results_then_the_end() -> None:
    with running(Tower('a', last=5), Tower('b', last=2)) as threads:
        results: list[StepResult] = []
        with pytest.raises(tf.errors.OutOfRangeError):
            results.extend(iter(threads.next_result, None))
        assert sorted(names(results)) == ['a1', 'a2', 'a3', 'a4', 'a5', 'b1', 'b2']


def test_the_quicker_tower_makes_more_steps() -> None:
    gate = threading.Event()
    with running(Tower('a'), Tower('b', before=gate.wait)) as threads:
        assert names([threads.next_result() for _ in range(20)]) == [f'a{step}' for step in range(1, 21)]
        gate.set()


def test_a_tower_goes_on_while_the_caller_is_busy_but_not_far() -> None:
    gate = threading.Event()
    quick, blocked = Tower('a'), Tower('b', before=gate.wait)
    with running(quick, blocked) as threads:
        threads.next_result()
        wait_until(lambda: quick.begun == 2)
        gate.set()
        time.sleep(0.1)
        assert quick.begun + blocked.begun <= 4  # one was taken, as many as there are towers wait, one more at most


def test_one_tower_alone_waits_to_be_asked() -> None:
    tower = Tower('a')
    with running(tower) as threads:
        time.sleep(0.05)
        assert tower.begun == 0
        threads.next_result()
        time.sleep(0.05)
        assert tower.begun == 1


def test_fetches_go_to_the_next_step_that_begins() -> None:
    def loss(ops: StepOps) -> object:
        return ops.loss

    with running(Tower('a', last=4)) as threads:
        fetched = [threads.next_result(fetches).fetched for fetches in (None, loss, None, loss)]
    assert fetched == [None, loss, None, loss]


def test_a_pause_waits_for_steps_and_holds_back_new_ones() -> None:
    gate = threading.Event()
    towers = Tower('a'), Tower('b', before=gate.wait)
    with running(*towers) as threads:
        while not towers[1].begun:
            threads.next_result()
        threading.Timer(0.1, gate.set).start()
        with threads.paused():
            assert gate.is_set()
            begun = [tower.begun for tower in towers]
            time.sleep(0.05)
            assert [tower.begun for tower in towers] == begun
        assert 'b1' in names([threads.next_result() for _ in range(10)])


def test_an_error_comes_once_and_after_the_results() -> None:
    gate = threading.Event()
    calls = itertools.count()
    other = Tower('b', before=gate.wait)

    def fail() -> None:
        if next(calls) == 2:
            wait_until(lambda: other.begun == 1)
            gate.set()
            raise ValueError('broken')

    with running(Tower('a', before=fail), other) as threads:
        results: list[StepResult] = []
        with pytest.raises(ValueError, match='broken'):
            results.extend(iter(threads.next_result, None))
        assert names(results) == ['a1', 'a2', 'b1']


def test_stop_ends_threads_that_wait() -> None:
    tower = Tower('a')
    threads = TowerThreads([tower])
    threads.next_result()
    threads.stop()
    assert not any(thread.name == 'tower_0' for thread in threading.enumerate())
    assert tower.begun == 1
