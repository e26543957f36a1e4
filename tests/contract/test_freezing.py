"""Layers that are not trained, in every strategy; and that they are trained when they are no longer frozen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.config import LAYERS, Config, ParallelConfig
from deepspeech_training.graphs import make_tower_fn
from deepspeech_training.parallel.hybrid import HybridStrategy
from deepspeech_training.parallel.strategy import StepOps

from .conftest import Case
from .job import Job
from .test_deepspeech import CHARACTERS, MODEL, Utterances
from .toy import Reference, ToyData, ToyJob

FROZEN = ('w', 'w/Adam', 'w/Adam_1')


def start_of(reference: Reference) -> dict[str, np.ndarray]:
    """The variables that `reference` has."""
    values = {
        'w': reference.w,
        'w/Adam': reference.m[:-1],
        'w/Adam_1': reference.v[:-1],
        'b': reference.b,
        'b/Adam': reference.m[-1],
        'b/Adam_1': reference.v[-1],
    }
    return {f'{name}:0': np.asarray(value, np.float32) for name, value in values.items()}


def epoch_of(reference: Reference, data: ToyData, group: int, limit: float, *, frozen: bool) -> list[float]:
    """Trains `reference`, with the weights frozen or not; returns the norms before gradients are clipped."""
    norms = []
    for start in range(0, len(data.y), group):
        gradient = reference.gradient(data, list(range(start, min(start + group, len(data.y)))))
        if frozen:
            gradient[:-1] = 0
        norms.append(float(np.linalg.norm(gradient)))
        kept = reference.w, reference.m[:-1].copy(), reference.v[:-1].copy()
        reference.apply(gradient * min(1.0, limit / norms[-1]))
        if frozen:
            reference.w, reference.m[:-1], reference.v[:-1] = kept
    return norms


@pytest.mark.parametrize(('steps', 'limit'), [(1, 1e9), (2, 0.3)])
def test_frozen_weights_and_their_moments_stay_until_they_are_unfrozen(case: Case, steps: int, limit: float) -> None:
    """One epoch with `w` frozen, one in another graph without, that goes on from the values of the first."""
    data = ToyData.random(7)
    reference = Reference(np.array([0.3, -0.2, 0.1]))
    random = np.random.default_rng(1)
    reference.m, reference.v = random.normal(size=4) / 10, random.uniform(size=4) / 10
    before = start_of(reference)
    group = steps * case.batches_per_update

    with ToyJob(case.create(accumulate_steps=steps, grad_clip_norm=limit), data, 1, frozen=['w']) as job:
        job.load(before)
        norms = [result.gradient_norm for result in job.rest_of_epoch()]
        state = job.state()
    assert norms == pytest.approx(epoch_of(reference, data, group, limit, frozen=True), rel=1e-4)
    for name in FROZEN:
        assert state[f'{name}:0'].tobytes() == before[f'{name}:0'].tobytes(), name
    for name, value in start_of(reference).items():
        np.testing.assert_allclose(state[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    assert state['b:0'] != before['b:0']

    with ToyJob(case.create(accumulate_steps=steps, grad_clip_norm=limit), data, 1) as job:
        assert sorted(job.state()) == sorted(state)  # the variables of checkpoints are the same
        job.load(state)
        norms = [result.gradient_norm for result in job.rest_of_epoch()]
        state = job.state()
    assert norms == pytest.approx(epoch_of(reference, data, group, limit, frozen=False), rel=1e-4)
    for name, value in start_of(reference).items():
        np.testing.assert_allclose(state[name], value, rtol=1e-4, atol=2e-6, err_msg=name)
    assert state['global_step:0'] == 2 * len(norms)


def test_frozen_layers_of_the_model(case: Case) -> None:
    """Those above them get the gradients they had without, also where a loss scale is at work."""
    frozen = LAYERS[:3]

    def job_of(frozen: Sequence[str]) -> Job:
        tower_fn = make_tower_fn(Config(model=MODEL), CHARACTERS + 1, training=True, frozen=frozen)
        strategy = case.create()
        return Job(
            strategy,
            partial(Utterances.random(5).batches, 2),
            lambda batch: replace(tower_fn(batch), needs_loss_scale=True),
            partial(strategy.adam, learning_rate=0.01, beta1=0.9, beta2=0.999, epsilon=1e-3),
            frozen=frozen,
        )

    def gradients(ops: StepOps) -> dict[str, tf.Tensor]:
        return {variable.op.name: gradient for gradient, variable in ops.gradients if gradient is not None}

    with job_of(frozen) as job, job_of(()) as plain:
        before = plain.state()
        job.load(before)
        ours, theirs = job.step(fetches=gradients).fetched, plain.step(fetches=gradients).fetched
        job.rest_of_epoch()
        state = job.state()
    assert state.keys() == before.keys()
    for name, value in state.items():
        if name.split('/')[0] in frozen:
            assert value.tobytes() == before[name].tobytes(), name
        else:
            assert value.tobytes() != before[name].tobytes(), name
    assert set(ours) == {name for name in theirs if name.split('/')[0] not in frozen}
    for name, gradient in ours.items():
        np.testing.assert_allclose(gradient, theirs[name], rtol=1e-5, atol=1e-7, err_msg=name)


@pytest.mark.parametrize(('layers', 'products'), [(0, 9), (1, 7), (3, 4), (4, 3), (5, 1)])
def test_frozen_layers_have_no_backward_pass(layers: int, products: int) -> None:
    """Two products a layer, one for its weights and one for its inputs; without the latter in the lowest layer."""
    strategy = HybridStrategy(ParallelConfig(), devices=['/cpu:0'])
    config = Config(model=replace(MODEL, lstm='block'))  # whose products are no operations of their own
    with tf.Graph().as_default():
        batches = tf.compat.v1.data.make_initializable_iterator(Utterances.random(4).batches(2, 1))
        tower_fn = make_tower_fn(config, CHARACTERS + 1, training=True, frozen=LAYERS[:layers])
        ops = strategy.build(batches.get_next, tower_fn, partial(tf.compat.v1.train.AdamOptimizer, 0.01))
        backward = [op.type for op in ancestors(ops.train_op) - ancestors(ops.loss.op)]
    assert backward.count('MatMul') == products
    assert any('LSTMGrad' in kind for kind in backward) == (layers < 4)


def ancestors(operation: tf.Operation | None) -> set[tf.Operation]:
    """What has to be run for `operation`."""
    found, todo = set(), [operation]
    while todo:
        op = todo.pop()
        if op is not None and op not in found:
            found.add(op)
            todo += [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
    return found
