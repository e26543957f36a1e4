"""Transcribes one audio file with a trained model."""

from __future__ import annotations

import numpy as np

from deepspeech_training.audio.reading import read_audio
from deepspeech_training.config import Config
from deepspeech_training.decoding import Decoder, decoder_for
from deepspeech_training.errors import DataError
from deepspeech_training.runtimes.checkpoint import CheckpointRuntime
from deepspeech_training.text.alphabet import Alphabet


def one_shot_infer(config: Config, alphabet: Alphabet, decoder: Decoder | None = None) -> str:
    """The transcript of the audio file `config.one_shot_infer`.

    `decoder`: as `config.decoding` describes it, if one is open already; it stays open.

    Raises:
      DataError: the file cannot be read or is shorter than one window.
      CheckpointError: there is no checkpoint, or it does not fit.
    """
    samples = read_audio(config.one_shot_infer, config.features)
    if not config.features.frames(len(samples)):
        raise DataError(
            f'{config.one_shot_infer}: {1000 * len(samples) / config.features.sample_rate:.0f} ms of audio are '
            f'shorter than one window of {config.features.window_ms} ms'
        )
    opened = decoder or decoder_for(config.decoding, alphabet)
    try:
        return opened.decode(compute_logits(config, alphabet, samples))
    finally:
        if decoder is None:
            opened.close()


def compute_logits(config: Config, alphabet: Alphabet, samples: np.ndarray) -> np.ndarray:
    """The logits [frames, n_output] of `samples` [n] at the configured rate, with the checkpoint's weights."""
    with CheckpointRuntime(config, alphabet) as model:
        return model.logits(samples)
