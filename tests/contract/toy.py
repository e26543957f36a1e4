"""A linear model with squared errors: small enough to be computed by hand, or by NumPy, beside the strategies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from deepspeech_training.parallel.strategy import StepResult, Strategy, TowerFn, TowerOutput

from .job import Job, MakeOptimizer

LEARNING_RATE = 0.1
BETA1 = 0.9
BETA2 = 0.999
EPSILON = 1e-8


@dataclass(frozen=True)
class ToyData:
    """Samples with `x` [count, features] and `y` [count], named `sample_<position>`."""

    x: np.ndarray
    y: np.ndarray

    @classmethod
    def random(cls, count: int) -> ToyData:
        """`count` samples of 3 features, of which the last is always 0."""
        random = np.random.default_rng(count)
        x = random.normal(size=(count, 3)) * [1.0, 1.0, 0.0]
        return cls(x.astype(np.float32), random.normal(size=count).astype(np.float32))

    def with_sample(self, position: int, x: list[float] | None = None, y: float | None = None) -> ToyData:
        """The same samples but for one."""
        new = ToyData(self.x.copy(), self.y.copy())
        if x is not None:
            new.x[position] = x
        if y is not None:
            new.y[position] = y
        return new


class ToyBatch(NamedTuple):
    """A tower's batch; filler has weight 0 and index -1."""

    x: tf.Tensor
    y: tf.Tensor
    weights: tf.Tensor
    names: tf.Tensor
    indices: tf.Tensor


def toy_losses(batch: ToyBatch) -> tf.Tensor:
    """The squared error of each sample."""
    w = tf.compat.v1.get_variable('w', [batch.x.shape[1]], initializer=tf.compat.v1.zeros_initializer())
    b = tf.compat.v1.get_variable('b', [], initializer=tf.compat.v1.zeros_initializer())
    return tf.square(tf.linalg.matvec(batch.x, w) + b - batch.y)


def toy_tower(batch: ToyBatch) -> TowerOutput:
    """The plain tower."""
    return summed(toy_losses(batch), batch)


def summed(losses: tf.Tensor, batch: ToyBatch) -> TowerOutput:
    """Adds up the losses that count."""
    counted = batch.weights > 0
    finite = tf.math.is_finite(losses)
    return TowerOutput(
        loss_sum=tf.reduce_sum(tf.where(counted & finite, losses, tf.zeros_like(losses))),
        count=tf.reduce_sum(tf.cast(counted & finite, tf.float32)),
        bad_names=tf.boolean_mask(batch.names, counted & ~finite),
        totals={'rows': tf.reduce_sum(batch.weights)},
        per_sample={'indices': batch.indices},
        samples=tf.reduce_sum(batch.weights),
    )


def adam(strategy: Strategy) -> tf.compat.v1.train.Optimizer:
    return strategy.adam(learning_rate=LEARNING_RATE, beta1=BETA1, beta2=BETA2, epsilon=EPSILON)


class ToyJob(Job):
    """A strategy that trains the linear model on `data`."""

    def __init__(
        self,
        strategy: Strategy,
        data: ToyData,
        batch_size: int,
        *,
        tower_fn: TowerFn = toy_tower,
        make_optimizer: MakeOptimizer | None = None,
        evaluation: bool = False,
        seed: int = 1,
        frozen: Sequence[str] = (),
    ) -> None:
        self._data = data
        self._batch_size = batch_size
        self._counts: list[tf.Tensor] = []
        make_optimizer = make_optimizer or partial(adam, strategy)
        super().__init__(
            strategy, self._batches, tower_fn, make_optimizer, evaluation=evaluation, seed=seed, frozen=frozen
        )

    def start_with(self, count: int) -> None:
        """Begins an epoch of the first `count` samples, from the first values of the variables."""
        self.initialize()
        self.start(dict.fromkeys(self._counts, count))

    def _batches(self, towers: int) -> tf.data.Dataset:
        """Batches in order, the last smaller; then filler, until the towers all have one."""
        data, size = self._data, self._batch_size
        total = tf.compat.v1.placeholder_with_default(np.int32(len(data.y)), [])
        self._counts.append(total)
        starts = tf.range(0, total, size)
        fillers = -tf.size(starts) % towers

        def cut(start: tf.Tensor) -> ToyBatch:
            rows = tf.range(start, tf.minimum(start + size, total))
            names = tf.strings.join(['sample_', tf.strings.as_string(rows)])
            weights = tf.ones_like(rows, tf.float32)
            return ToyBatch(tf.gather(data.x, rows), tf.gather(data.y, rows), weights, names, rows)

        filler = ToyBatch(
            tf.zeros([1, data.x.shape[1]]), tf.zeros([1]), tf.zeros([1]), tf.constant(['']), tf.constant([-1])
        )
        batches = tf.data.Dataset.from_tensor_slices(starts).map(cut)
        return batches.concatenate(tf.data.Dataset.from_tensors(filler).repeat(tf.cast(fillers, tf.int64)))


def counted(results: list[StepResult]) -> list[list[int]]:
    """The positions of the samples that took part in each step, tower by tower."""
    return [
        [int(index) for tower in result.per_tower for index in tower['indices'] if index >= 0] for result in results
    ]


@dataclass
class Reference:
    """The same model and Adam in NumPy, float64 (Kingma and Ba 2015, algorithm 1, in TensorFlow's order)."""

    w: np.ndarray
    b: float = 0.0
    updates: int = 0
    m: np.ndarray = field(init=False)
    v: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.m = np.zeros(self.w.size + 1)
        self.v = np.zeros(self.w.size + 1)

    def loss(self, data: ToyData, rows: list[int]) -> float:
        return float(np.mean(self._errors(data, rows) ** 2))

    def _errors(self, data: ToyData, rows: list[int]) -> np.ndarray:
        errors: np.ndarray = data.x[rows].astype(np.float64) @ self.w + self.b - data.y[rows]
        return errors

    def gradient(self, data: ToyData, rows: list[int]) -> np.ndarray:
        """Of the mean loss by w and, last, b."""
        errors = self._errors(data, rows)
        inputs = np.concatenate([data.x[rows], np.ones((len(rows), 1))], axis=1)
        gradient: np.ndarray = 2 * errors @ inputs / len(rows)
        return gradient

    def update(self, data: ToyData, rows: list[int]) -> None:
        self.apply(self.gradient(data, rows))

    def apply(self, gradient: np.ndarray) -> None:
        """An update from the `gradient` by w and, last, b."""
        self.updates += 1
        self.m = BETA1 * self.m + (1 - BETA1) * gradient
        self.v = BETA2 * self.v + (1 - BETA2) * gradient**2
        rate = LEARNING_RATE * np.sqrt(1 - BETA2**self.updates) / (1 - BETA1**self.updates)
        change = rate * self.m / (np.sqrt(self.v) + EPSILON)
        self.w = self.w - change[:-1]
        self.b = self.b - float(change[-1])
