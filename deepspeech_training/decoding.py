"""From log-probabilities to text, without a language model: the best path, or prefix beam search."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np

from deepspeech_training.text.alphabet import Alphabet


class Decoder(Protocol):
    """Finds the text for what a model heard."""

    def decode(self, logits: np.ndarray) -> str:
        """The most likely text for `logits` [frames, n_output], normalised or not."""

    def close(self) -> None:
        """Frees what the decoder holds."""


def make_decoder(alphabet: Alphabet, beam_width: int) -> Decoder:
    """A decoder of this width; 1 is the best path, which needs no TensorFlow."""
    return GreedyDecoder(alphabet) if beam_width == 1 else BeamSearchDecoder(alphabet, beam_width)


class GreedyDecoder:
    """The text of the most likely path: the best label of each frame, repetitions and blanks left out."""

    def __init__(self, alphabet: Alphabet) -> None:
        self._alphabet = alphabet

    def decode(self, logits: np.ndarray) -> str:
        """See `Decoder`."""
        best = logits.argmax(axis=1)
        changed = np.concatenate([[True], best[1:] != best[:-1]])[: len(best)]
        return self._alphabet.decode(best[changed & (best != self._alphabet.blank)].tolist())

    def close(self) -> None:
        """There is nothing to free."""


class BeamSearchDecoder:
    """CTC prefix beam search (Graves 2012, section 7.5), one utterance at a time.

    TensorFlow's decoder does the search. Each utterance is decoded by itself, so that the result
    does not depend on what else is in its batch; several threads share one decoder.
    """

    def __init__(self, alphabet: Alphabet, beam_width: int) -> None:
        import tensorflow as tf  # only here: models that need no TensorFlow have their best path without it

        self._alphabet = alphabet
        with tf.Graph().as_default() as graph, tf.device('/cpu:0'):
            self._logits = tf.compat.v1.placeholder(tf.float32, [None, 1, alphabet.size + 1], name='logits')
            length = tf.shape(self._logits)[:1]
            decoded, _ = tf.nn.ctc_beam_search_decoder(self._logits, length, beam_width=beam_width, top_paths=1)
            self._ids = decoded[0].values
        self._session = tf.compat.v1.Session(
            graph=graph,
            # The decoder itself is serial. -1: it runs in the caller's thread, so that callers run side by side.
            config=tf.compat.v1.ConfigProto(inter_op_parallelism_threads=-1, intra_op_parallelism_threads=1),
        )

    def decode(self, logits: np.ndarray) -> str:
        """See `Decoder`."""
        if not len(logits):
            return ''
        ids = self._session.run(self._ids, {self._logits: logits[:, np.newaxis, :]})
        return self._alphabet.decode(ids)

    def close(self) -> None:
        """Frees the decoder's session."""
        self._session.close()


def decoder_threads() -> int:
    """How many utterances are decoded at a time: one on each core this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1
