"""Signals: stop training between two steps, write a checkpoint now, or wait until something is done."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from deepspeech_training import log

STOPPING = (signal.SIGINT, signal.SIGTERM)
SAVING = signal.SIGUSR1


class Interrupts:
    """While it is entered, signals do not end the program at once. A context manager.

    SIGINT (Ctrl-C) or SIGTERM: `stop` becomes the signal's number, and the loop ends when its step is done; a second
    one ends the program at once, whatever it is doing. SIGUSR1: `take_save_request` is true once.

    A thread waits for the signals' bytes: TensorFlow runs a step in C, where Python's own handlers would only be
    called after it. Outside of the main thread, where there are no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.stop: int | None = None
        self._save = threading.Event()
        self._handlers: dict[signal.Signals, Any] = {}
        self._wakeup = -1

    def take_save_request(self) -> bool:
        """Whether a checkpoint was asked for since the last call."""
        asked = self._save.is_set()
        self._save.clear()
        return asked

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (*STOPPING, SAVING):
            self._handlers[number] = signal.signal(number, lambda *_: None)
        self._thread = threading.Thread(target=self._watch, name='signals', daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._handlers:
            return
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}
        signal.set_wakeup_fd(self._wakeup)
        self._writer.close()  # the thread reads the end
        self._thread.join()
        self._reader.close()

    def _watch(self) -> None:
        while received := self._reader.recv(1):
            number = received[0]
            if number == SAVING:
                self._save.set()
            elif number in STOPPING and self.stop is None:
                self.stop = number
                log.warn(
                    f'{signal.Signals(number).name}: training ends after this step, with a checkpoint; '
                    'the same signal again ends it at once'
                )
            elif number in STOPPING:
                os._exit(128 + number)


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Ctrl-C comes after it instead of in the middle: for what must not be left half done. Also a decorator."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting = False

    def keep(*_: object) -> None:
        nonlocal waiting
        waiting = True

    before = signal.signal(signal.SIGINT, keep)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if waiting:
            signal.raise_signal(signal.SIGINT)
