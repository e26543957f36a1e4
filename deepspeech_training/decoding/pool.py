"""Many utterances decoded at a time, by processes of their own, while the caller computes the next ones.

Processes, because the search is Python and NumPy with small arrays: threads of one process wait for each other, two of
them use one core.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from queue import SimpleQueue
from types import TracebackType
from typing import TypeVar

import numpy as np

from deepspeech_training.config import DecodingConfig
from deepspeech_training.decoding.decoders import Decoder, decoder_for
from deepspeech_training.errors import UserError
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.workers import cores, start_helper

Key = TypeVar('Key')

WAITING_PER_DECODER = 8
"""Utterances that may wait for a decoder before the caller pauses: memory stays flat."""

WORTH_PROCESSES = 32
"""Utterances. Fewer are decoded in this process before others have started, which takes half a second."""


class DecodingPool:
    """Decoders side by side, each used by a thread that mostly waits. A context manager."""

    def __init__(self, decoders: Sequence[Decoder], *, closing: bool) -> None:
        """`closing`: the decoders end with the pool."""
        self._free: SimpleQueue[Decoder] = SimpleQueue()
        for decoder in decoders:
            self._free.put(decoder)
        self.most_waiting = WAITING_PER_DECODER * len(decoders)
        self._closing = decoders if closing else ()
        self._threads = ThreadPoolExecutor(len(decoders), thread_name_prefix='decoder')

    def decode_all(self, outputs: Iterable[tuple[Key, np.ndarray]]) -> Iterator[tuple[Key, str]]:
        """The text for each of `outputs`, logits `[frames, n_output]` with what they are known by; in their order.

        Raises `UserError` when a process ends, as for want of memory.
        """
        waiting: deque[tuple[Key, Future[str]]] = deque()
        for key, logits in outputs:
            waiting.append((key, self.submit(logits)))
            while waiting and (waiting[0][1].done() or len(waiting) > self.most_waiting):
                yield _first(waiting)
        while waiting:
            yield _first(waiting)

    def submit(self, logits: np.ndarray) -> Future[str]:
        """The text for one utterance, in a while; for callers that see to it that at most `most_waiting` wait."""
        return self._threads.submit(self._decode, logits)

    def _decode(self, logits: np.ndarray) -> str:
        decoder = self._free.get()
        try:
            return decoder.decode(logits)
        finally:
            self._free.put(decoder)

    def __enter__(self) -> DecodingPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._threads.shutdown(cancel_futures=True)
        for decoder in self._closing:
            decoder.close()


def decoding_pool(
    decoding: DecodingConfig, alphabet: Alphabet, decoder: Decoder, utterances: int, processes: int = 0
) -> DecodingPool:
    """A pool for so many utterances. `decoder` is the one that `decoding` describes: where it is enough, it does all.

    `processes`: 0: one on each core.
    """
    greedy = decoding.beam_width == 1 and not decoding.scorer_path
    count = processes or cores()
    if greedy or count == 1 or utterances < WORTH_PROCESSES:
        return DecodingPool([decoder], closing=False)
    return DecodingPool([ProcessDecoder(decoding, alphabet) for _ in range(min(count, utterances))], closing=True)


class ProcessDecoder:
    """A decoder in a process of its own, which begins at once and ends with this one."""

    def __init__(self, decoding: DecodingConfig, alphabet: Alphabet) -> None:
        self._process, self._connection = start_helper(_work, decoding, alphabet)

    def decode(self, logits: np.ndarray) -> str:
        """See `Decoder`. Raises `UserError` where it cannot be opened, or its process has ended."""
        try:
            self._connection.send(logits)
            answer = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(5)
            raise UserError(
                f'a decoding process has ended with status {self._process.exitcode}; perhaps there was not enough '
                'memory: use a smaller --beam_width, or fewer processes'
            ) from None
        if isinstance(answer, UserError):
            raise answer
        return str(answer)

    def close(self) -> None:
        """Ends the process, whatever it does."""
        self._connection.close()
        self._process.terminate()
        self._process.join()


def _first(waiting: deque[tuple[Key, Future[str]]]) -> tuple[Key, str]:
    key, future = waiting.popleft()
    return key, future.result()


def _work(decoding: DecodingConfig, alphabet: Alphabet, connection: Connection) -> None:
    """What the process does: answers each output of the model, until the pipe is closed."""
    with contextlib.suppress(EOFError, OSError):  # that one has ended
        try:
            decoder = decoder_for(decoding, alphabet)
        except UserError as error:
            connection.send(error)
            return
        while True:
            connection.send(decoder.decode(connection.recv()))
