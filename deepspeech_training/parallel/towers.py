"""Towers: the same graph once a device, each with a mini-batch of its own, all with the same variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from deepspeech_training.parallel.devices import CPU, create_on_cpu, variables_on_cpu
from deepspeech_training.parallel.strategy import NextBatch, TowerFn, TowerOutput

TowerGradients = list[tuple[Any, tf.Variable]]


def hand_out_batches(next_batch: NextBatch, scopes: Sequence[str]) -> list[Any]:
    """One batch for each of the name `scopes`, taken on the CPU and always in this order.

    Only taking a batch waits for the one before, nothing else of the tower does.
    """
    batches: list[Any] = []
    before: list[tf.Operation] = []
    for scope in scopes:
        with tf.device(CPU), tf.compat.v1.name_scope(scope), tf.control_dependencies(before):
            batch = next_batch()
        parts = tf.nest.flatten(batch, expand_composites=True)
        before = [part.op for part in parts if isinstance(part, tf.Tensor)]
        batches.append(batch)
    return batches


def build_towers(
    next_batch: NextBatch, tower_fn: TowerFn, devices: Sequence[str]
) -> tuple[list[TowerOutput], list[str]]:
    """Builds one tower on each device, in the name scope `tower_<i>/`; returns outputs and name scopes.

    What `tower_fn` makes with `get_variable` is made once, as a resource variable on the CPU, and shared.
    """
    scopes = []
    for number in range(len(devices)):
        with tf.compat.v1.name_scope(f'tower_{number}') as scope:
            scopes.append(scope)
    outputs = []
    for scope, device, batch in zip(scopes, devices, hand_out_batches(next_batch, scopes), strict=True):
        with tf.compat.v1.device(variables_on_cpu(device)), tf.compat.v1.name_scope(scope), shared_variables():
            outputs.append(tower_fn(batch))
    return outputs, scopes


@contextmanager
def shared_variables() -> Iterator[None]:
    """A variable scope whose variables are on the CPU and are reused where they exist already."""
    with tf.compat.v1.variable_scope(
        tf.compat.v1.get_variable_scope(),
        reuse=tf.compat.v1.AUTO_REUSE,
        use_resource=True,
        custom_getter=create_on_cpu,
        auxiliary_name_scope=False,
    ):
        yield


def get_tower_results(
    next_batch: NextBatch, tower_fn: TowerFn, optimizer: tf.compat.v1.train.Optimizer, devices: Sequence[str]
) -> tuple[list[TowerOutput], list[TowerGradients]]:
    """Builds the towers, forward and backward; returns their outputs and their gradients.

    A tower's gradients, pairs of gradient (or None) and trainable variable, are those of its loss sum
    divided by the number of samples of all towers, so that `average_gradients` only has to add them up.
    The division is that of the scalar which the backward pass starts from.
    """
    outputs, scopes = build_towers(next_batch, tower_fn, devices)
    weight = sample_weight(outputs)
    tower_gradients: list[TowerGradients] = []
    for output, scope, device in zip(outputs, scopes, devices, strict=True):
        with tf.compat.v1.device(variables_on_cpu(device)), tf.compat.v1.name_scope(scope):
            gradients = optimizer.compute_gradients(
                output.loss_sum, grad_loss=weight, gate_gradients=tf.compat.v1.train.Optimizer.GATE_NONE
            )
        tower_gradients.append(gradients)
    return outputs, tower_gradients


def sample_weight(outputs: Sequence[TowerOutput]) -> tf.Tensor:
    """Float32 scalar: one over the number of samples of all towers, 0 when there are none."""
    with tf.device(CPU), tf.compat.v1.name_scope('sample_weight'):
        samples = [output.count if output.samples is None else output.samples for output in outputs]
        return tf.math.divide_no_nan(1.0, tf.add_n(samples))
