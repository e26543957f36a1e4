"""A model and a decoder: from samples to a segment of a transcript."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deepspeech_training import log
from deepspeech_training.config import FeatureConfig
from deepspeech_training.decoding import Decoder, make_decoder
from deepspeech_training.errors import UserError
from deepspeech_training.runtimes import Runtime, open_model
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.transcription.transcript import LogProbabilities, Segment, make_segment

Samples = npt.NDArray[np.float32]

DecoderMaker = Callable[[Alphabet, int], Decoder]
"""From alphabet and beam width; another one may bring a language model. A process gets it by its name."""


@dataclass(frozen=True)
class Recognition:
    """Which model, and how it is decoded; `threads` 0: one a core, `beam_width` 0: the model's."""

    model: str
    threads: int = 0
    beam_width: int = 0
    alphabet_path: str = ''
    features: FeatureConfig | None = None
    load: str = 'auto'
    make_decoder: DecoderMaker = make_decoder


class Recognizer:
    """Opened once, used for many segments."""

    def __init__(self, recognition: Recognition) -> None:
        """Raises `UserError` for a model that cannot be opened."""
        with log.native_messages_held(UserError):
            self.model: Runtime = open_model(
                recognition.model,
                threads=recognition.threads,
                alphabet_path=recognition.alphabet_path,
                features=recognition.features,
                load=recognition.load,
            )
            width = recognition.beam_width or self.model.beam_width
            self._decoder = recognition.make_decoder(self.model.alphabet, width)
            self.recognize(np.zeros(self.model.info.features.window_samples, np.float32), 0.0)  # the first time is slow

    def recognize(self, samples: Samples, start: float) -> Segment:
        """What is said in `samples` `[samples]` at the model's rate, which begin at `start` seconds."""
        return self.decode(self.model.log_probabilities(samples), samples, start)

    def decode(self, log_probabilities: LogProbabilities, samples: Samples, start: float) -> Segment:
        """The same with the model's output `[frames, n_output]` for `samples`."""
        text = self._decoder.decode(log_probabilities)
        return make_segment(text, log_probabilities, self.model.alphabet, self.model.info.features, samples, start)

    def close(self) -> None:
        """Frees model and decoder."""
        self._decoder.close()
        self.model.close()
