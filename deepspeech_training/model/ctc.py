"""Connectionist temporal classification (Graves et al. 2006)."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


def ctc_losses(logits: tf.Tensor, lengths: tf.Tensor, labels: tf.Tensor, label_lengths: tf.Tensor) -> tf.Tensor:
    """The negative log likelihood of each transcript.

    `logits`: float32 `[frames, batch, n_output]`, the blank last. `lengths`: int32 `[batch]`, frames.
    `labels`: int32 `[batch, characters]`, `label_lengths`: int32 `[batch]`; more than 0 characters each.
    Returns float32 `[batch]`: infinite for a transcript that cannot be aligned (more characters, with one more for
    each pair of equal neighbours, than frames), NaN or infinite where logits are not finite. Such a sample, and one
    whose loss is not used or is multiplied by 0, has a gradient of zero.
    """
    possible = tf.less_equal(required_frames(labels, label_lengths), lengths)
    indices = tf.where(tf.sequence_mask(label_lengths, tf.shape(labels)[1]))
    values = tf.gather_nd(labels, indices)

    @tf.custom_gradient
    def losses(logits: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        ctc = tf.raw_ops.CTCLoss(
            inputs=logits,
            labels_indices=indices,
            labels_values=values,
            sequence_length=lengths,
            ignore_longer_outputs_than_inputs=True,  # rather than end the program; they are infinite below
        )
        loss = tf.where(possible, ctc.loss, tf.fill(tf.shape(ctc.loss), float('inf')))
        usable = tf.math.is_finite(loss)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            used = tf.logical_and(usable, tf.not_equal(upstream, 0))
            scaled = ctc.gradient * tf.reshape(upstream, [1, -1, 1])
            return tf.where(tf.reshape(used, [1, -1, 1]), scaled, tf.zeros_like(scaled))

        return loss, gradient

    return losses(logits)


def required_frames(labels: tf.Tensor, label_lengths: tf.Tensor) -> tf.Tensor:
    """Frames that each transcript needs at least: its characters, and a blank between equal neighbours."""
    repeated = tf.equal(labels[:, 1:], labels[:, :-1])
    repeated = tf.logical_and(repeated, tf.sequence_mask(label_lengths - 1, tf.shape(repeated)[1]))
    return label_lengths + tf.reduce_sum(tf.cast(repeated, label_lengths.dtype), axis=1)
