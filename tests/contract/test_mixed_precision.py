"""Half precision through the strategies. On a CPU float16 is slow, but it is there."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.config import Config, ModelConfig, ParallelConfig
from deepspeech_training.graphs import make_tower_fn
from deepspeech_training.parallel.hybrid import HybridStrategy
from deepspeech_training.parallel.loss_scale import loss_scales
from deepspeech_training.parallel.strategy import TowerFn, TowerOutput

from .conftest import Case
from .job import Job
from .test_deepspeech import CHARACTERS, MODEL, Utterances


def tower_in(compute_type: str) -> TowerFn:
    model = replace(MODEL, compute_type=compute_type, n_hidden=16)
    return make_tower_fn(Config(model=model), CHARACTERS + 1, training=True)


def job_of(case: Case, tower_fn: TowerFn) -> Job:
    adam = partial(tf.compat.v1.train.AdamOptimizer, 0.002, epsilon=1e-3)
    return Job(case.create(), partial(Utterances.random(7).batches, 2), tower_fn, adam)


@pytest.mark.parametrize('compute_type', ['bfloat16', 'float16'])
def test_trains_as_float32_does(case: Case, compute_type: str) -> None:
    with job_of(case, tower_in('float32')) as plain, job_of(case, tower_in(compute_type)) as job:
        with job.graph.as_default():
            for scale in loss_scales():
                scale.load(np.array([64, 0], np.float32), job.session)  # with that nothing overflows here
        for _ in range(2):
            plain.start()
            job.start()
            for ours, theirs in zip(job.rest_of_epoch(), plain.rest_of_epoch(), strict=True):
                assert ours.applied
                assert ours.loss_sum == pytest.approx(theirs.loss_sum, rel=0.02)
                assert ours.loss_sum != theirs.loss_sum
                assert ours.measures.get('loss_scale') == (64 if compute_type == 'float16' else None)
        state, expected = job.state(), plain.state()
    assert {name: (value.shape, value.dtype) for name, value in state.items()} == {
        name: (value.shape, value.dtype) for name, value in expected.items()
    }


def test_small_derivatives_need_a_scale(one_device: Case) -> None:
    """A loss so small that its derivatives are below what float16 can tell from zero, though the update is not."""
    tower_fn = tower_in('float16')

    def gradients(tower_fn: TowerFn, *, scale: bool) -> list[np.ndarray]:
        def tower(batch: Any) -> TowerOutput:
            output = tower_fn(batch)
            return replace(output, loss_sum=output.loss_sum * 1e-7, needs_loss_scale=scale)

        with job_of(one_device, tower) as job:
            fetched: list[np.ndarray] = job.step(fetches=lambda ops: [g for g, _ in ops.gradients]).fetched
            return fetched

    def error(ours: list[np.ndarray]) -> float:
        return max(np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(ours, wanted, strict=True))

    wanted = gradients(tower_in('float32'), scale=False)
    assert error(gradients(tower_fn, scale=True)) < 0.02
    assert error(gradients(tower_fn, scale=False)) > 0.5


@pytest.mark.parametrize('compute_type', ['bfloat16', 'float16'])
@pytest.mark.parametrize('lstm', ['hoisted', 'block', 'cudnn'])
def test_on_a_gpu(lstm: str, compute_type: str) -> None:
    """The graph only: products and casts stand on the GPU, update, averages and loss scale on the CPU, in float32."""
    strategy = HybridStrategy(ParallelConfig(), devices=['/gpu:0'])
    config = Config(model=ModelConfig(n_hidden=16, lstm='hoisted', compute_type=compute_type))
    with tf.Graph().as_default() as graph, pytest.MonkeyPatch.context() as patch:
        patch.setattr('deepspeech_training.graphs.chosen_lstm', lambda config: lstm)  # cuDNN is refused without a GPU
        batches = tf.compat.v1.data.make_initializable_iterator(Utterances.random(4).batches(2, 1))
        tower_fn = make_tower_fn(config, CHARACTERS + 1, training=True)
        ops = strategy.build(batches.get_next, tower_fn, partial(tf.compat.v1.train.AdamOptimizer, 0.01))
        variables = tf.compat.v1.global_variables()
        operations = graph.get_operations()
    half = tf.as_dtype(compute_type)
    types = ['MatMul'] if compute_type == 'bfloat16' else ['MatMul', 'CudnnRNNV3', 'CudnnRNNBackpropV3']
    products = [op for op in operations if op.type in types and op.name.startswith('tower_0/')]
    in_half = [op for op in products if op.get_attr('T') == half]
    casts = [op for op in operations if op.type == 'Cast' and half in (op.inputs[0].dtype, op.outputs[0].dtype)]
    assert len(in_half) == len(products) - 3  # those of layer 6
    assert len(casts) > 20
    assert {op.device for op in [*products, *casts]} == {'/device:GPU:0'}
    on_cpu = [op for op in operations if op.name.startswith(('loss_scale', 'gradient_norm', 'apply_gradients'))]
    assert {op.device for op in on_cpu} <= {'/device:CPU:0', ''}  # '': where their variable is
    assert any(op.name.startswith('loss_scale') for op in on_cpu) == (compute_type == 'float16')
    assert (ops.overflowed is not None) == (compute_type == 'float16')
    typed = [*variables, *(gradient for gradient, _ in ops.gradients)]
    assert {part.dtype.base_dtype for part in typed if part.dtype.is_floating} == {tf.float32}
