"""A model and a decoder: from samples to a segment of a transcript."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from deepspeech_training import log
from deepspeech_training.config import DecodingConfig, FeatureConfig
from deepspeech_training.decoding import decoder_for
from deepspeech_training.errors import UserError
from deepspeech_training.runtimes import Runtime, open_model
from deepspeech_training.transcription.transcript import LogProbabilities, Segment, make_segment

Samples = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Recognition:
    """Which model, and how it is decoded; `threads` 0: one a core, `decoding.beam_width` 0: the model's."""

    model: str
    threads: int = 0
    alphabet_path: str = ''
    features: FeatureConfig | None = None
    load: str = 'auto'
    decoding: DecodingConfig = field(default_factory=lambda: DecodingConfig(beam_width=0))


class Recognizer:
    """Opened once, used for many segments."""

    def __init__(self, recognition: Recognition) -> None:
        """Raises `UserError` for a model or a scorer that cannot be used."""
        with log.native_messages_held(UserError):
            self.model: Runtime = open_model(
                recognition.model,
                threads=recognition.threads,
                alphabet_path=recognition.alphabet_path,
                features=recognition.features,
                load=recognition.load,
            )
            width = recognition.decoding.beam_width or self.model.beam_width
            self._decoder = decoder_for(replace(recognition.decoding, beam_width=width), self.model.alphabet)
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
