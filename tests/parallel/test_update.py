from __future__ import annotations

import pytest
import tensorflow as tf

from deepspeech_training.parallel.collective import Collective
from deepspeech_training.parallel.strategy import TowerOutput
from deepspeech_training.parallel.update import sample_weight


def output(count: float, samples: float | None = None) -> TowerOutput:
    return TowerOutput(
        loss_sum=tf.constant(0.0),
        count=tf.constant(count),
        bad_names=tf.constant([], tf.string),
        samples=None if samples is None else tf.constant(samples),
    )


def test_sample_weight(graph: tf.Graph) -> None:
    counts = sample_weight([output(2.0), output(3.0)], Collective())
    batches = sample_weight([output(2.0, samples=4.0), output(3.0)], Collective())
    none = sample_weight([output(0.0), output(0.0)], Collective())
    with tf.compat.v1.Session() as session:
        assert session.run([counts, batches, none]) == pytest.approx([1 / 5, 1 / 7, 0])
