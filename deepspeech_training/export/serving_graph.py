"""The signatures of a SavedModel: whole utterances to log-probabilities or text, and streams.

All are parts of one graph and share its variables.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from deepspeech_training.audio.reference import INT16_SCALE
from deepspeech_training.config import Config
from deepspeech_training.export.batch_features import BatchMfccs, make_batch_mfccs
from deepspeech_training.export.metadata import create_metadata
from deepspeech_training.export.streaming_graph import StreamState, create_stream, state_shapes, zero_state
from deepspeech_training.text.alphabet import Alphabet

tfv1 = tf.compat.v1

DEFAULT = 'serving_default'
"""The signature that servers and `saved_model_cli` use unless told another: `transcribe` under this name, too."""


@dataclass(frozen=True)
class Signature:
    """Tensors by the names that callers know them by."""

    inputs: dict[str, tf.Tensor]
    outputs: dict[str, tf.Tensor]


def create_signatures(config: Config, alphabet: Alphabet) -> dict[str, Signature]:
    """Builds all signatures in the default graph.

    `transcribe` (also `serving_default`): `samples` float32 `[batch, samples]` in [-1, 1] and `lengths` int32
    `[batch]`, to `transcripts`, UTF-8 strings `[batch]`, and `scores` float32 `[batch]`, the logarithms of their
    probabilities. `log_probabilities`: the same to `log_probabilities` float32 `[batch, frames, n_output]` and `frames`
    int32 `[batch]`, of which the first `frames` of each utterance are valid. `transcribe_int16` and
    `log_probabilities_int16`: from 16-bit samples. `stream`: see `streaming_graph`; the states in are `state_*`, those
    out `new_state_*`. `metadata`: no inputs, to what `create_metadata` describes, but for
    `alphabet`, which is what the labels write, UTF-8 strings `[n_output - 1]`, or single bytes of it.
    """
    mfccs = make_batch_mfccs(config.features)
    signatures: dict[str, Signature] = {}
    for suffix, dtype in (('', tf.float32), ('_int16', tf.int16)):
        text, logs = _whole_utterances(config, alphabet, mfccs, dtype)
        signatures |= {f'transcribe{suffix}': text, f'log_probabilities{suffix}': logs}
    signatures['stream'] = _stream(config, alphabet, mfccs)
    signatures['metadata'] = _metadata(config, alphabet)
    return signatures | {DEFAULT: signatures['transcribe']}


def _whole_utterances(
    config: Config, alphabet: Alphabet, mfccs: BatchMfccs, dtype: tf.DType
) -> tuple[Signature, Signature]:
    """`transcribe` and `log_probabilities`, for samples of type `dtype`."""
    with tfv1.name_scope(f'utterances_{dtype.name}'):
        samples = tfv1.placeholder(dtype, [None, None], name='samples')
        lengths = tfv1.placeholder(tf.int32, [None], name='lengths')
        audio = samples if dtype == tf.float32 else tf.cast(samples, tf.float32) / INT16_SCALE
        last = tf.ones_like(lengths, tf.bool)
        state = zero_state(config, tf.shape(samples)[0])
        output = create_stream(config, alphabet.size + 1, mfccs, audio, lengths, last, state)
        transcripts, scores = _beam_search(output.log_probabilities, output.frames, alphabet, config.export.beam_width)
    inputs = {'samples': samples, 'lengths': lengths}
    return (
        Signature(inputs, {'transcripts': transcripts, 'scores': scores}),
        Signature(inputs, {'log_probabilities': output.log_probabilities, 'frames': output.frames}),
    )


def _stream(config: Config, alphabet: Alphabet, mfccs: BatchMfccs) -> Signature:
    with tfv1.name_scope('stream'):
        samples = tfv1.placeholder(tf.float32, [None, None], name='samples')
        lengths = tfv1.placeholder(tf.int32, [None], name='lengths')
        last = tfv1.placeholder(tf.bool, [None], name='last')
        shapes = state_shapes(config)
        state = StreamState(
            position=tfv1.placeholder(tf.int64, [None, *shapes.position], name='state_position'),
            samples=tfv1.placeholder(tf.float32, [None, *shapes.samples], name='state_samples'),
            mfccs=tfv1.placeholder(tf.float32, [None, *shapes.mfccs], name='state_mfccs'),
            c=tfv1.placeholder(tf.float32, [None, *shapes.c], name='state_c'),
            h=tfv1.placeholder(tf.float32, [None, *shapes.h], name='state_h'),
        )
        output = create_stream(config, alphabet.size + 1, mfccs, samples, lengths, last, state)
    states = {f'state_{name}': value for name, value in state._asdict().items()}
    new_states = {f'new_state_{name}': value for name, value in output.state._asdict().items()}
    return Signature(
        {'samples': samples, 'lengths': lengths, 'last': last, **states},
        {'log_probabilities': output.log_probabilities, 'frames': output.frames, **new_states},
    )


def _metadata(config: Config, alphabet: Alphabet) -> Signature:
    with tfv1.name_scope('metadata'):
        values = {name.removeprefix('metadata_'): value for name, value in create_metadata(config, alphabet).items()}
        return Signature({}, values | {'alphabet': _labels(alphabet)})


def _labels(alphabet: Alphabet) -> tf.Tensor:
    return tf.constant(alphabet.encoded_labels)


def _beam_search(
    log_probabilities: tf.Tensor, frames: tf.Tensor, alphabet: Alphabet, beam_width: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """The most likely text of each utterance, strings `[batch]`, and the logarithm of its probability."""
    by_frame = tf.pad(tf.transpose(log_probabilities, [1, 0, 2]), [[0, 1], [0, 0], [0, 0]])  # one frame at least
    decoded, scores = tf.nn.ctc_beam_search_decoder(by_frame, frames, beam_width=beam_width, top_paths=1)
    ids = tf.sparse.to_dense(decoded[0], default_value=-1)
    characters = tf.where(ids < 0, tf.fill(tf.shape(ids), ''), tf.gather(_labels(alphabet), tf.maximum(ids, 0)))
    texts = tf.strings.reduce_join(characters, axis=1)
    if alphabet.of_bytes:  # which may not be UTF-8
        texts = tf.strings.unicode_transcode(texts, 'UTF-8', 'UTF-8', errors='replace')
    return texts, scores[:, 0]
