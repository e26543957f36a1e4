"""The speech model through the strategies: unequal lengths, padding, CTC."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.config import N_INPUT, Config, ModelConfig
from deepspeech_training.data.batch import Batch
from deepspeech_training.graphs import make_tower_fn
from deepspeech_training.parallel.hybrid import HybridStrategy

from .conftest import Case
from .job import Job
from .test_faults import assert_same

CHARACTERS = 5
MODEL = ModelConfig(n_hidden=8, dropout=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0), lstm='hoisted')


@dataclass(frozen=True)
class Utterances:
    """Random MFCCs and labels of different lengths."""

    features: list[np.ndarray]
    labels: list[np.ndarray]

    @classmethod
    def random(cls, count: int) -> Utterances:
        random = np.random.default_rng(7)
        frames = random.integers(7, 15, size=count)
        features = [random.normal(size=(length, N_INPUT)).astype(np.float32) for length in frames]
        labels = [random.integers(0, CHARACTERS, size=length // 3).astype(np.int32) for length in frames]
        return cls(features, labels)

    def batch(self, rows: list[int]) -> Batch:
        """NumPy arrays, padded; of weight 0 when `rows` is empty."""
        filler = not rows
        features = [self.features[row] for row in rows] or [np.zeros((1, N_INPUT), np.float32)]
        labels = [self.labels[row] for row in rows] or [np.zeros(1, np.int32)]
        frames = [len(part) for part in features]
        characters = [len(part) for part in labels]
        return Batch(
            names=np.array([f'utterance_{row}' for row in rows] or ['']),
            features=np.stack([np.pad(part, ((0, max(frames) - len(part)), (0, 0))) for part in features]),
            feature_lengths=np.array(frames, np.int32),
            labels=np.stack([np.pad(part, (0, max(characters) - len(part))) for part in labels]),
            label_lengths=np.array(characters, np.int32),
            weights=np.array([0.0 if filler else 1.0] * len(frames), np.float32),
            indices=np.array(rows or [-1], np.int32),
            audio_seconds=np.array([0.0 if filler else 0.02] * len(frames), np.float32),
            wait_seconds=np.array(0.0, np.float32),
            number=np.array(rows[0] if rows else -1, np.int64),
        )

    def batches(self, batch_size: int, towers: int) -> tf.data.Dataset:
        """In order, with filler at the end."""
        count = len(self.features)
        parts = [list(range(start, min(start + batch_size, count))) for start in range(0, count, batch_size)]
        parts += [[]] * (-len(parts) % towers)
        batches = [self.batch(rows) for rows in parts]
        data = tf.data.Dataset.from_tensors(batches[0])
        for batch in batches[1:]:
            data = data.concatenate(tf.data.Dataset.from_tensors(batch))
        return data


def _job(case: Case, utterances: Utterances, batch_size: int, model: ModelConfig = MODEL) -> Job:
    tower_fn = make_tower_fn(Config(model=model), CHARACTERS + 1, training=True)
    # Adam divides by the root of the second moment: without a larger epsilon, a gradient that is nearly 0 would make
    # a full step of either sign out of a rounding error.
    adam = partial(tf.compat.v1.train.AdamOptimizer, 0.01, epsilon=1e-3)
    return Job(case.create(), partial(utterances.batches, batch_size), tower_fn, adam)


def test_equals_one_device_with_the_concatenated_batch(case: Case, one_device: Case) -> None:
    """Seven utterances: the last group has a smaller batch and, with three towers, filler."""
    utterances = Utterances.random(7)
    with (
        _job(case, utterances, 2) as job,
        _job(one_device, utterances, 2 * case.batches_per_update) as single,
    ):
        first = single.state()
        for _ in range(3):
            job.start()
            single.start()
            for ours, theirs in zip(job.rest_of_epoch(), single.rest_of_epoch(), strict=True):
                assert ours.applied
                assert ours.count == theirs.count
                assert ours.loss_sum == pytest.approx(theirs.loss_sum, rel=1e-5)
                assert ours.gradient_norm == pytest.approx(theirs.gradient_norm, rel=1e-5)
        state, expected = job.state(), single.state()
    assert 'cudnn_lstm/rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/kernel:0' in state
    for name, value in state.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=2e-6, err_msg=name)
    assert np.abs(state['layer_1/weights:0'] - first['layer_1/weights:0']).max() > 0.01


def test_the_same_seed_gives_the_same_run(case: Case) -> None:
    """To the last bit, with dropout too, whichever tower or process is quicker."""
    utterances = Utterances.random(7)
    model = replace(MODEL, dropout=(0.2, 0.2, 0.2, 0.1, 0.1, 0.2))

    def run() -> dict[str, np.ndarray]:
        with _job(case, utterances, 2, model) as job:
            for _ in range(3):
                job.start()
                job.rest_of_epoch()
            return job.state()

    assert_same(run(), run())


def test_an_utterance_that_cannot_be_aligned_is_named(case: Case) -> None:
    """Its transcript has more characters than its audio has frames, so that its loss is infinite."""
    utterances = Utterances.random(4)
    utterances.labels[3] = np.zeros(len(utterances.features[3]) + 1, np.int32)
    with _job(case, utterances, 2) as job:
        results = job.rest_of_epoch()
        assert [name for result in results for name in result.bad_names] == ['utterance_3']
        assert [result.applied for result in results] == [not result.bad_names for result in results]
        assert all(np.isfinite(result.gradient_norm) for result in results)
        assert all(np.all(np.isfinite(value)) for value in job.state().values())


def test_two_gpus() -> None:
    """Each tower's products stand on its GPU, forward and backward; variables, averages and update on the CPU."""
    strategy = HybridStrategy(Config().parallel, devices=['/gpu:0', '/gpu:1'])
    config = Config(model=ModelConfig(n_hidden=8, lstm='hoisted'))
    with tf.Graph().as_default() as graph:
        batches = tf.compat.v1.data.make_initializable_iterator(Utterances.random(4).batches(2, 2))
        tower_fn = make_tower_fn(config, CHARACTERS + 1, training=True)
        ops = strategy.build(batches.get_next, tower_fn, partial(tf.compat.v1.train.AdamOptimizer, 0.01))
        variables = tf.compat.v1.global_variables()
        operations = graph.get_operations()
    for tower in range(2):
        products = [op for op in operations if op.type == 'MatMul' and op.name.startswith(f'tower_{tower}/')]
        assert len(products) > 10
        assert {op.device for op in products} == {f'/device:GPU:{tower}'}
    averages = [gradient.op for gradient, _ in ops.gradients]
    assert {op.type for op in averages} == {'AddN'}
    assert len(averages) == 12  # weights and bias of five layers, kernel and bias of the LSTM
    on_cpu = [*averages, *(variable.op for variable in variables)]
    assert {op.device for op in on_cpu} == {'/device:CPU:0'}
    reads = [op for op in operations if op.type == 'ReadVariableOp' and op.name.startswith('tower_')]
    assert len(reads) >= 2 * len(averages)
    assert {op.device for op in reads} <= {'', '/device:CPU:0'}  # '': where the variable is
