"""What the model writes for the dev sets while it is trained, and how much of that is wrong."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from deepspeech_training.config import Config
from deepspeech_training.data.manifest import Sample
from deepspeech_training.decoding import decoder_for, decoder_threads
from deepspeech_training.parallel.strategy import StepResult, Strategy
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.metrics import Transcription
from deepspeech_training.totals import SampleRange

WAITING_PER_THREAD = 8
"""Utterances that may wait for a decoder thread before the model pauses: memory stays flat."""

MARKDOWN = '\\`*_{}[]()#+-.!|<>&~'
"""What would be more than itself in a table."""


class DevTranscriber:
    """Decodes, as testing would, what evaluation steps give; in threads, while the model computes."""

    def __init__(self, config: Config, strategy: Strategy, samples: Sequence[Sample], alphabet: Alphabet) -> None:
        """`samples`: all that the pipeline reads. Raises `ScorerError` for a language model that cannot be used."""
        self._strategy = strategy
        self._samples = samples
        self._decoder = decoder_for(config.decoding, alphabet)
        self._pool = ThreadPoolExecutor(decoder_threads(), thread_name_prefix='decoder')
        self._waiting: deque[Future[tuple[int, str, float]]] = deque()
        self._done: dict[int, tuple[str, float]] = {}

    def take(self, result: StepResult) -> None:
        """The utterances of a step. Waits for others where too many wait to be decoded."""
        for index, logits, loss in utterances(result):
            self._waiting.append(self._pool.submit(self._decode, index, logits, loss))
            while len(self._waiting) > WAITING_PER_THREAD * decoder_threads():
                self._finish_one()

    def finish(self, part: SampleRange, between: Callable[[], None] | None = None) -> list[Transcription]:
        """The transcriptions of `part`, of which all steps were taken, by all processes, in its order.

        `between` is called now and then until this process's are done.
        """
        while self._waiting:
            self._finish_one()
            if between:
                between()
        done = {index: each for found in self._strategy.all_gather(self._done) for index, each in found.items()}
        self._done = {}
        samples = [(self._samples[index], *done[index]) for index in part.order().tolist()]
        return [Transcription.of(sample.path, sample.transcript, text, loss) for sample, text, loss in samples]

    def close(self) -> None:
        """Ends the threads; what waits is not decoded any more."""
        self._pool.shutdown(cancel_futures=True)
        self._decoder.close()

    def _finish_one(self) -> None:
        index, text, loss = self._waiting.popleft().result()
        self._done[index] = text, loss

    def _decode(self, index: int, logits: np.ndarray, loss: float) -> tuple[int, str, float]:
        return index, self._decoder.decode(logits), loss


def utterances(result: StepResult) -> Iterator[tuple[int, np.ndarray, float]]:
    """Position, logits `[frames, n_output]` and loss of each utterance of a step that has its towers' output."""
    for tower in result.per_tower:
        for row in np.flatnonzero(tower['weights'] > 0).tolist():
            length = tower['lengths'][row]
            # A copy, so that the batch can be freed before all of it is decoded.
            yield int(tower['indices'][row]), tower['logits'][:length, row].copy(), float(tower['losses'][row])


def as_markdown(transcriptions: Sequence[Transcription], count: int, seed: str) -> str:
    """Tables of the `count` worst and of as many random ones; these are the same in each epoch."""
    worst = sorted(transcriptions, key=lambda each: (-each.wer, -each.loss))[:count]
    drawn = sorted(random.Random(seed).sample(range(len(transcriptions)), min(count, len(transcriptions))))
    some = [transcriptions[index] for index in drawn]
    return f'**Worst**\n\n{_table(worst)}\n**Random**\n\n{_table(some)}'


def _table(transcriptions: Sequence[Transcription]) -> str:
    rows = [
        f'| {each.wer:.3f} | {_plain(each.src)} | {_plain(each.res)} | {_plain(each.wav_filename)} |\n'
        for each in transcriptions
    ]
    return '| WER | reference | hypothesis | file |\n| --- | --- | --- | --- |\n' + ''.join(rows)


def _plain(text: str) -> str:
    """`text` in Markdown: nothing of it is markup."""
    return ''.join(f'&#{ord(character)};' if character in MARKDOWN else character for character in text)
