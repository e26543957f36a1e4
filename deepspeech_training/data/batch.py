"""What the input pipeline hands to a tower."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class Batch(NamedTuple):
    """One mini-batch of one tower, padded to its longest utterance.

    A batch always has at least one row. Rows of weight 0 are filler (a tower that has nothing
    left to do at the end of an epoch gets one row of one frame): they take no part in losses,
    gradients, counts or reports.
    """

    names: tf.Tensor  # string [batch]: the audio file of each row
    features: tf.Tensor  # float32 [batch, frames, N_INPUT]: MFCCs, zero behind the end
    feature_lengths: tf.Tensor  # int32 [batch]: frames
    labels: tf.Tensor  # int32 [batch, characters], zero behind the end
    label_lengths: tf.Tensor  # int32 [batch]: characters
    weights: tf.Tensor  # float32 [batch]: 1, or 0 for filler
    indices: tf.Tensor  # int32 [batch]: position in the pipeline's list of samples, -1 for filler
    audio_seconds: tf.Tensor  # float32 [batch]: duration of the audio, 0 for filler
    wait_seconds: tf.Tensor  # float32 []: how long the step waited for this batch
    number: tf.Tensor  # int64 []: this batch's own number, the same in a resumed run; random numbers derive from it
