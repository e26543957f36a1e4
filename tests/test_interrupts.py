"""Signals during training, sent for real to this process or to one of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from deepspeech_training.interrupts import Interrupts, interrupts_later


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def soon(condition: Callable[[], bool]) -> bool:
    """Whether `condition` becomes true within seconds."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_to_stop(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        assert interrupts.stop is None
        send(number)
        assert soon(lambda: interrupts.stop == number)
    assert signal.getsignal(number) is before


def test_a_checkpoint_is_asked_for_once() -> None:
    with Interrupts() as interrupts:
        assert not interrupts.take_save_request()
        send(signal.SIGUSR1)
        assert soon(interrupts.take_save_request)
        assert not interrupts.take_save_request()
        assert interrupts.stop is None


def test_no_thread_and_no_file_is_left() -> None:
    threads, files = threading.active_count(), len(os.listdir('/proc/self/fd'))
    for _ in range(3):
        with Interrupts():
            pass
    assert threading.active_count() == threads
    assert len(os.listdir('/proc/self/fd')) == files


def test_without_the_main_thread_there_are_no_signals() -> None:
    results = []

    def work() -> None:
        with Interrupts() as interrupts:
            results.append((interrupts.stop, interrupts.take_save_request()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [(None, False)]


BUSY = """
import hashlib
from deepspeech_training.interrupts import Interrupts, interrupts_later
with Interrupts():
    print('ready', flush=True)
    hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)  # minutes in C, in which Python calls no handler
"""


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_ends_the_program_at_once(number: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, '-c', BUSY], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == 'ready\n'
        process.send_signal(number)
        assert process.stderr is not None
        assert 'again ends it at once' in process.stderr.readline()
        process.send_signal(number)
        assert process.wait(20) == 128 + number


def test_an_interruption_waits_for_what_must_be_done() -> None:
    before = signal.getsignal(signal.SIGINT)
    done = []

    @interrupts_later()
    def write() -> None:
        send(signal.SIGINT)
        send(signal.SIGINT)
        time.sleep(0.01)
        done.append('all')

    with pytest.raises(KeyboardInterrupt):
        write()
    assert done == ['all']
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_in_it_stays_without_an_interruption() -> None:
    with pytest.raises(ValueError, match='wrong'), interrupts_later():
        raise ValueError('wrong')
