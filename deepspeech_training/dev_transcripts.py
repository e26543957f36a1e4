"""What the model writes for the dev sets while it is trained, and how much of that is wrong."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

from deepspeech_training.config import DecodingConfig
from deepspeech_training.data.manifest import Sample
from deepspeech_training.decoding import Decoder
from deepspeech_training.decoding.pool import DecodingPool, decoding_pool
from deepspeech_training.graphs import utterances
from deepspeech_training.parallel.strategy import StepResult, Strategy
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.metrics import Transcription
from deepspeech_training.totals import SampleRange

MARKDOWN = '\\`*_{}[]()#+-.!|<>&~'
"""What would be more than itself in a table."""


class DevTranscriber:
    """Decodes, as testing would, what evaluation steps give, while the model computes the next ones."""

    def __init__(
        self,
        decoding: DecodingConfig,
        strategy: Strategy,
        samples: Sequence[Sample],
        alphabet: Alphabet,
        decoder: Decoder,
    ) -> None:
        """`samples`: all that the pipeline reads. `decoder`: the one that `decoding` describes."""
        self._decoding = decoding
        self._strategy = strategy
        self._samples = samples
        self._alphabet = alphabet
        self._decoder = decoder
        self._pool: DecodingPool | None = None
        self._waiting: deque[tuple[int, float, Future[str]]] = deque()
        self._done: dict[int, tuple[str, float]] = {}

    @contextmanager
    def ready(self, parts: Sequence[SampleRange]) -> Iterator[None]:
        """Within it `parts` can be decoded; what waits at its end is not any more."""
        own = sum(part.count for part in parts) // self._strategy.world_size
        with decoding_pool(self._decoding, self._alphabet, self._decoder, own, self._strategy.cores) as self._pool:
            yield

    def take(self, result: StepResult) -> None:
        """The utterances of a step. Waits for others where too many wait to be decoded."""
        assert self._pool is not None
        for (index, loss), logits in utterances(result):
            self._waiting.append((index, loss, self._pool.submit(logits)))
            while len(self._waiting) > self._pool.most_waiting:
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

    def _finish_one(self) -> None:
        index, loss, text = self._waiting.popleft()
        self._done[index] = text.result(), loss


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
