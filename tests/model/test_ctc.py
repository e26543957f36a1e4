"""CTC losses against the definition (all alignments counted), and samples that cannot be used."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.model.ctc import ctc_losses

tfv1 = tf.compat.v1

CLASSES = 3  # two characters and the blank


def collapse(path: tuple[int, ...]) -> list[int]:
    return [label for label, _ in itertools.groupby(path) if label != CLASSES - 1]


def loss_by_counting(logits: np.ndarray, transcript: list[int]) -> float:
    """-log of the sum of the probabilities of all alignments."""
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    total = 0.0
    for path in itertools.product(range(CLASSES), repeat=len(logits)):
        if collapse(path) == transcript:
            total += float(np.prod([probabilities[t, label] for t, label in enumerate(path)]))
    return -np.log(total) if total else float('inf')


def run(
    logits: np.ndarray, lengths: list[int], transcripts: list[list[int]], weights: list[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Losses, and the gradient by the logits of their weighted sum over the finite ones."""
    width = max(map(len, transcripts))
    labels = np.array([row + [0] * (width - len(row)) for row in transcripts], np.int32)
    with tf.Graph().as_default() as graph, tfv1.Session(graph=graph) as session:
        inputs = tf.constant(logits)
        label_lengths = tf.constant([len(row) for row in transcripts])
        losses = ctc_losses(inputs, tf.constant(lengths), tf.constant(labels), label_lengths)
        finite = tf.where(tf.math.is_finite(losses), losses, tf.zeros_like(losses))
        (gradient,) = tf.gradients(tf.reduce_sum(finite * weights), [inputs])
        return tuple(session.run((losses, gradient)))


def random_logits(frames: int, batch: int) -> np.ndarray:
    return np.random.default_rng(5).normal(size=[frames, batch, CLASSES]).astype(np.float32)


def test_losses_are_those_of_the_definition() -> None:
    logits = random_logits(5, 4)
    lengths, transcripts = [5, 3, 4, 1], [[0, 1], [0, 0], [1], [1]]
    losses, _ = run(logits, lengths, transcripts, [1] * 4)
    expected = [loss_by_counting(logits[:n, b], transcripts[b]) for b, n in enumerate(lengths)]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_gradient_is_the_slope() -> None:
    logits = random_logits(5, 3)
    lengths, transcripts, weights = [5, 3, 4], [[0, 1, 1], [0], [1, 0]], [1.0, 0.5, 2.0]
    _, gradient = run(logits, lengths, transcripts, weights)
    direction = np.random.default_rng(6).normal(size=logits.shape)

    def total(step: float) -> float:
        moved = logits.astype(np.float64) + step * direction
        return sum(
            weight * loss_by_counting(moved[:n, b], transcripts[b])
            for b, (n, weight) in enumerate(zip(lengths, weights, strict=True))
        )

    assert (gradient * direction).sum() == pytest.approx((total(1e-5) - total(-1e-5)) / 2e-5, rel=1e-4)


@pytest.mark.parametrize('transcript', [[0, 1, 0, 1], [0, 0, 1]])
def test_impossible_transcript_has_infinite_loss_and_harms_no_other(transcript: list[int]) -> None:
    logits = random_logits(5, 2)
    losses, gradient = run(logits, [3, 5], [transcript, [0, 1]], [1, 1])
    assert losses[0] == float('inf')
    assert not gradient[:, 0].any()
    alone_losses, alone = run(logits[:, 1:], [5], [[0, 1]], [1])
    np.testing.assert_allclose(losses[1:], alone_losses)
    np.testing.assert_allclose(gradient[:, 1:], alone)
    assert np.abs(alone).max() > 0.01


@pytest.mark.parametrize('value', [float('nan'), float('inf')])
def test_bad_logits_have_a_bad_loss_and_harm_no_other(value: float) -> None:
    logits = random_logits(5, 2)
    spoilt = logits.copy()
    spoilt[2, 0] = value
    losses, gradient = run(spoilt, [5, 5], [[0], [0, 1]], [1, 1])
    expected_losses, expected = run(logits, [5, 5], [[0], [0, 1]], [1, 1])
    assert not np.isfinite(losses[0])
    assert not gradient[:, 0].any()
    np.testing.assert_allclose(losses[1], expected_losses[1])
    np.testing.assert_allclose(gradient[:, 1], expected[:, 1])


def test_weight_0_means_no_gradient() -> None:
    logits = random_logits(5, 2)
    losses, gradient = run(logits, [5, 5], [[0], [0, 1]], [0, 1])
    assert np.isfinite(losses).all()
    assert not gradient[:, 0].any()
    assert gradient[:, 1].any()


def test_padding_changes_nothing() -> None:
    """Frames behind the end, NaN too, and labels behind the end."""
    logits = random_logits(5, 2)
    expected_losses, expected = run(logits[:3, :1], [3], [[0, 1]], [1])
    logits[3:, 0] = float('nan')
    losses, gradient = run(logits, [3, 5], [[0, 1], [1, 1, 0]], [1, 1])
    np.testing.assert_allclose(losses[0], expected_losses[0])
    np.testing.assert_allclose(gradient[:3, 0], expected[:, 0])
    assert not gradient[3:, 0].any()
