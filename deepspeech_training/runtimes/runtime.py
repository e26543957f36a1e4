"""What all kinds of models have in common: from audio to the log-probabilities of characters, whole or as it comes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from deepspeech_training.runtimes.metadata import ModelInfo
from deepspeech_training.text.alphabet import Alphabet

Array = npt.NDArray[np.float32]

LEAST_PROBABILITY = 1e-37
"""Stands for a probability that float32 has no number for; its logarithm is still finite."""


class Stream(Protocol):
    """One utterance that arrives in pieces.

    The frames are those of the whole utterance, and so are the results but for rounding. They come as soon as all
    that they depend on is there.
    """

    def feed(self, samples: Array, *, is_last: bool = False) -> Array:
        """Log-probabilities `[n, n_output]` of the frames that are known now, often none.

        `samples`: any number of them. `is_last`: the utterance ends with these.
        """

    def finish(self) -> Array:
        """Log-probabilities of the frames that were waiting for more. The stream is at its end."""


class Runtime(ABC):
    """A model. Not to be used by several threads at once."""

    kind: ClassVar[str]
    """What it is, for messages."""

    def __init__(self, path: str, info: ModelInfo) -> None:
        self.path = path
        self.info = info

    @property
    def sample_rate(self) -> int:
        """Of the audio, Hz."""
        return self.info.features.sample_rate

    @property
    def alphabet(self) -> Alphabet:
        return self.info.alphabet

    @property
    def beam_width(self) -> int:
        """For the beam search, where nobody says otherwise."""
        return self.info.beam_width

    def log_probabilities(self, samples: Array) -> Array:
        """Of the characters, in the order of the alphabet, and the blank: float32 `[frames, n_output]`.

        `samples`: float32 `[samples]` in [-1, 1] at `sample_rate` Hz, as `audio.reading` reads them.
        """
        return self.stream().feed(samples, is_last=True)

    def logits(self, samples: Array) -> Array:
        """The same: log-probabilities are logits that are normalised already."""
        return self.log_probabilities(samples)

    @abstractmethod
    def stream(self) -> Stream:
        """The beginning of an utterance that arrives in pieces."""

    def close(self) -> None:  # noqa: B027 - most have nothing to free
        """Frees what the model holds beside memory."""

    def __enter__(self) -> Runtime:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def log_of(probabilities: Array) -> Array:
    """Logarithms of probabilities, finite always."""
    return np.log(np.maximum(probabilities, np.float32(LEAST_PROBABILITY)))
