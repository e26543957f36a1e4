"""How many words and characters are wrong with given settings of the decoder; in this process or in several."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from types import TracebackType
from typing import Any

import numpy as np

from deepspeech_training.config import DecodingConfig
from deepspeech_training.decoding import Decoder, Scorer, ScorerOptions, SearchOptions, decoder_with
from deepspeech_training.errors import UserError
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.metrics import Transcription
from deepspeech_training.tuning.outputs import Outputs
from deepspeech_training.workers import start_helper


@dataclass(frozen=True)
class Settings:
    """Of the decoder. `alpha`, `beta`: None, both of them: no language model."""

    alpha: float | None
    beta: float | None
    beam_width: int
    cutoff_prob: float
    cutoff_top_n: int


@dataclass(frozen=True)
class Errors:
    """Over `utterances` of a set: Levenshtein distances in words and characters."""

    words: int
    characters: int
    utterances: int


class Counter:
    """Decodes a whole set. Opened once, used with many settings."""

    def __init__(self, outputs: Outputs, decoding: DecodingConfig, alphabet: Alphabet) -> None:
        """`decoding` says which language model. Raises `ScorerError` where it cannot be used."""
        self._alphabet = alphabet
        self._scorer = Scorer(ScorerOptions(decoding.scorer_path, hot_words=dict(decoding.hot_words)), alphabet)
        self._logits = outputs.log_probabilities()
        self._transcripts = outputs.transcripts
        # Those with most words first: what is hopeless is seen soon.
        self._order = np.argsort([-len(said.split()) for said in self._transcripts], kind='stable').tolist()

    def count(self, settings: Settings, by_characters: bool, enough: int | None) -> Errors:
        """The errors of all utterances; of the first ones only, when there are more than `enough` already."""
        decoder = self._decoder(settings)
        words = characters = utterances = 0
        for index in self._order:
            text = decoder.decode(self._logits[index])
            one = Transcription.of('', self._transcripts[index], text, 0.0)
            words, characters, utterances = words + one.word_distance, characters + one.char_distance, utterances + 1
            if enough is not None and (characters if by_characters else words) > enough:
                break
        return Errors(words, characters, utterances)

    def _decoder(self, settings: Settings) -> Decoder:
        options = SearchOptions(settings.beam_width, settings.cutoff_prob, settings.cutoff_top_n)
        if settings.alpha is None or settings.beta is None:
            return decoder_with(self._alphabet, options)
        return decoder_with(self._alphabet, options, self._scorer.weighted(settings.alpha, settings.beta))


class Counters:
    """Several at a time, in processes of their own; a single one works in this process. A context manager."""

    def __init__(self, outputs: Outputs, decoding: DecodingConfig, alphabet: Alphabet, processes: int) -> None:
        self.processes = processes
        self._alone = Counter(outputs, decoding, alphabet) if processes == 1 else None
        workers = [] if self._alone else [_Process(outputs, decoding, alphabet) for _ in range(processes)]
        self._workers = workers
        self._free: SimpleQueue[_Process] = SimpleQueue()
        for worker in workers:
            self._free.put(worker)
        self._threads = ThreadPoolExecutor(processes)  # which wait for the processes

    def submit(self, settings: Settings, by_characters: bool = False, enough: int | None = None) -> Future[Errors]:
        """See `Counter.count`. The result raises `UserError` where the process has ended."""
        if self._alone is None:
            return self._threads.submit(self._count, settings, by_characters, enough)
        future: Future[Errors] = Future()
        future.set_result(self._alone.count(settings, by_characters, enough))
        return future

    def _count(self, *question: Any) -> Errors:
        worker = self._free.get()
        try:
            return worker.count(*question)
        finally:
            self._free.put(worker)

    def __enter__(self) -> Counters:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.end()
        self._threads.shutdown(cancel_futures=True)


class _Process:
    """A counter in a process of its own."""

    def __init__(self, outputs: Outputs, decoding: DecodingConfig, alphabet: Alphabet) -> None:
        self._process, self._connection = start_helper(_work, outputs, decoding, alphabet)

    def count(self, *question: Any) -> Errors:
        """See `Counter.count`."""
        try:
            self._connection.send(question)
            answer = self._connection.recv()
        except (EOFError, OSError):
            raise UserError(
                'a working process has ended; perhaps there was not enough memory: use fewer --processes'
            ) from None
        if isinstance(answer, UserError):
            raise answer
        assert isinstance(answer, Errors)
        return answer

    def end(self) -> None:
        """At once: nobody waits for what it decodes."""
        self._process.terminate()
        self._process.join()
        self._connection.close()


def _work(outputs: Outputs, decoding: DecodingConfig, alphabet: Alphabet, connection: Connection) -> None:
    with contextlib.suppress(EOFError, BrokenPipeError):
        try:
            counter = Counter(outputs, decoding, alphabet)
        except UserError as error:
            connection.send(error)
            return
        while True:
            connection.send(counter.count(*connection.recv()))


def lengths(transcripts: Sequence[str]) -> tuple[int, int]:
    """Words and characters said."""
    said = [Transcription.of('', transcript, '', 0.0) for transcript in transcripts]
    return sum(one.word_length for one in said), sum(one.char_length for one in said)
