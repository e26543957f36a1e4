"""Audio that arrives while it is spoken: raw 16-bit samples from a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np
import soxr

from deepspeech_training.audio.reading import to_16_bits
from deepspeech_training.audio.segments import Endpointer, Splitting
from deepspeech_training.decoding import GreedyDecoder
from deepspeech_training.text.byte_alphabet import REPLACEMENT
from deepspeech_training.transcription.recognizer import Recognizer, Samples
from deepspeech_training.transcription.transcript import LogProbabilities, Segment

BLOCK_SECONDS = 0.1  # read at a time at most


def transcribe_live(
    file: BinaryIO, rate: int, recognizer: Recognizer, splitting: Splitting, show: Callable[[str], None]
) -> Iterator[Segment]:
    """The utterances, each when it is over: after a silence, when it gets too long, or at the end of the input.

    `file`: raw little-endian 16-bit samples, mono, `rate` Hz. `show` is told what an utterance seems to be so far.
    """
    utterance = _Utterance(recognizer, splitting, show)
    for samples in _blocks(file, rate, recognizer.model.sample_rate):
        segment = utterance.hear(samples)
        if segment is not None:
            yield segment
    segment = utterance.finish()
    if segment is not None:
        yield segment


class _Utterance:
    """What is being said: nothing, with the last moments of silence kept, or the model's output so far."""

    def __init__(self, recognizer: Recognizer, splitting: Splitting, show: Callable[[str], None]) -> None:
        self._recognizer = recognizer
        self._rate = recognizer.model.sample_rate
        self._show = show
        self._greedy = GreedyDecoder(recognizer.model.alphabet)
        self._endpointer = Endpointer(self._rate, splitting)
        self._pad = splitting.pad
        self._kept = round((splitting.pad + BLOCK_SECONDS) * self._rate)  # the endpointer answers a block late
        self._position = 0  # samples heard
        self._before: Samples = np.zeros(0, np.float32)
        self._begin()

    def _begin(self) -> None:
        self._stream = self._recognizer.model.stream()
        self._start = -1
        self._samples: list[Samples] = []
        self._output: list[LogProbabilities] = []

    def hear(self, samples: Samples) -> Segment | None:
        """The utterance that ends with `samples`, if one does."""
        ended = self._endpointer.feed(samples)
        self._position += len(samples)
        if self._start < 0 and not (self._endpointer.is_speech or ended):
            self._before = np.concatenate([self._before, samples])[-self._kept :]
            return None
        if self._start < 0:
            self._start = self._position - len(samples) - len(self._before)
            samples = np.concatenate([self._before, samples])
        self._samples.append(samples)
        new = self._stream.feed(samples)
        if len(new):
            self._output.append(new)
            text = self._greedy.decode(np.concatenate(self._output))
            self._show(text.rstrip(REPLACEMENT))  # of a character whose last bytes are still to come
        return self.finish() if ended else None

    def finish(self) -> Segment | None:
        """The utterance under way, if there is one."""
        if self._start < 0:
            return None
        output = np.concatenate([*self._output, self._stream.finish()])
        samples = np.concatenate(self._samples)
        surplus = round((self._endpointer.silence - self._pad) * self._rate)
        if 0 < surplus < len(samples):  # the end as in a recording; some models write something in long silences
            samples = samples[:-surplus]
            output = output[: self._recognizer.model.info.features.frames(len(samples))]
        segment = self._recognizer.decode(output, samples, self._start / self._rate)
        self._before = np.zeros(0, np.float32)
        self._begin()
        return segment


def _blocks(file: BinaryIO, rate: int, model_rate: int) -> Iterator[Samples]:
    """Samples `[n]` at `model_rate`, as they come."""
    resampler = soxr.ResampleStream(rate, model_rate, 1, dtype='float32') if rate != model_rate else None
    size = 2 * max(1, round(BLOCK_SECONDS * rate))
    rest = b''
    while block := _read(file, size):
        block = rest + block
        whole = len(block) // 2 * 2
        rest = block[whole:]
        samples = np.frombuffer(block[:whole], '<i2').astype(np.float32) / np.float32(32768)
        yield samples if resampler is None else to_16_bits(resampler.resample_chunk(samples))
    if resampler is not None:
        yield to_16_bits(resampler.resample_chunk(np.zeros(0, np.float32), last=True))


def _read(file: BinaryIO, size: int) -> bytes:
    """What is there, at least a byte unless the input is at its end."""
    read = getattr(file, 'read1', None) or file.read
    content: bytes = read(size)
    return content
