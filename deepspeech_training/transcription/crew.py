"""Segments shared out among processes, each with the model of its own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

from deepspeech_training import log
from deepspeech_training.errors import UserError
from deepspeech_training.runtimes import ModelInfo
from deepspeech_training.transcription.recognizer import Recognition, Recognizer, Samples
from deepspeech_training.transcription.transcript import Segment
from deepspeech_training.workers import how_it_ended, start_helper


@dataclass(frozen=True)
class Task:
    """A segment of the file with this number."""

    file: int
    segment: int
    start: float  # seconds
    samples: Samples


@dataclass(frozen=True)
class Done:
    """What became of a task: a segment, or why there is none."""

    file: int
    segment: int
    seconds: float  # of audio
    result: Segment | str


class Alone:
    """Recognizes one segment after the other, in this process."""

    def __init__(self, recognition: Recognition) -> None:
        """Raises `UserError` for a model that cannot be opened."""
        self._recognizer = Recognizer(recognition)
        self.info = self._recognizer.model.info

    def recognize(self, tasks: Iterable[Task]) -> Iterator[Done]:
        """What becomes of `tasks`."""
        for task in tasks:
            yield _done(self._recognizer, task)

    def end(self) -> None:
        """Frees the model."""
        self._recognizer.close()


class Crew:
    """Several processes that each have the model."""

    def __init__(self, recognition: Recognition, processes: int) -> None:
        """Where `recognition.threads` is 0, the cores are shared out among the processes.

        Raises `UserError` for a model that cannot be opened.
        """
        threads = recognition.threads or max(1, (os.cpu_count() or 1) // processes)
        self._workers = [_Worker(replace(recognition, threads=threads)) for _ in range(processes)]
        try:
            self.info, *_ = [worker.take_info() for worker in self._workers]
        except BaseException:
            self.end()
            raise

    def recognize(self, tasks: Iterable[Task]) -> Iterator[Done]:
        """What becomes of `tasks`, in any order. Each process has one at most; the next are made when it wants more.

        Raises `UserError` when a process ends, as for want of memory.
        """
        waiting = iter(tasks)
        busy: dict[Connection, _Worker] = {}
        for worker in self._workers:
            _give(worker, waiting, busy)
        while busy:
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection)
                worker = busy.pop(connection)
                done = worker.take()
                _give(worker, waiting, busy)
                yield done

    def end(self) -> None:
        """Ends the processes, whatever they do."""
        for worker in self._workers:
            worker.end()


def _give(worker: _Worker, waiting: Iterator[Task], busy: dict[Connection, _Worker]) -> None:
    task = next(waiting, None)
    if task is not None:
        worker.give(task)
        busy[worker.connection] = worker


class _Worker:
    """A process, seen from the one that started it."""

    def __init__(self, recognition: Recognition) -> None:
        level = log.LEVELS.index(log.LOGGER.level) if log.LOGGER.level in log.LEVELS else 1
        self._process, self.connection = start_helper(_work, recognition, level)

    def give(self, task: Task) -> None:
        try:
            self.connection.send(task)
        except OSError:
            self._complain()

    def take(self) -> Done:
        done = self._receive()
        assert isinstance(done, Done)
        return done

    def take_info(self) -> ModelInfo:
        """What the model is. Raises the error of opening it."""
        info = self._receive()
        if isinstance(info, UserError):
            raise info
        assert isinstance(info, ModelInfo)
        return info

    def _receive(self) -> Any:
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self._complain()

    def _complain(self) -> NoReturn:
        raise UserError(how_it_ended('a transcribing process', self._process))

    def end(self) -> None:
        """Closing the pipe ends the process when it has nothing to do, which it may have."""
        self.connection.close()
        self._process.terminate()
        self._process.join()


def _work(recognition: Recognition, log_level: int, connection: Connection) -> None:
    """What the process does: says what the model is, then answers each task, until the pipe is closed."""
    log.setup(log_level)
    with contextlib.suppress(EOFError, BrokenPipeError):
        try:
            recognizer = Recognizer(recognition)
        except UserError as error:
            connection.send(error)
            return
        connection.send(recognizer.model.info)
        while True:
            connection.send(_done(recognizer, connection.recv()))


def _done(recognizer: Recognizer, task: Task) -> Done:
    seconds = len(task.samples) / recognizer.model.sample_rate
    try:
        result: Segment | str = recognizer.recognize(task.samples, task.start)
    except MemoryError:
        result = f'there is not enough memory for {seconds:.0f} s of audio at once; lower --max_segment'
    return Done(task.file, task.segment, seconds, result)
