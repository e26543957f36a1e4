"""Towers: the same graph once a device, each with a mini-batch of its own, all with the same variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from deepspeech_training.parallel.devices import CPU, create_on_cpu, variables_on_cpu
from deepspeech_training.parallel.strategy import NextBatch, TowerFn, TowerOutput

TowerGradients = list[tuple[Any, tf.Variable]]
ComputeGradients = Callable[[tf.Tensor], Sequence[TowerGradients]]
"""From a weight (float32 scalar) to the gradients of each tower's loss sum times that weight."""


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
    next_batch: NextBatch, tower_fn: TowerFn, devices: Sequence[str], first: int = 0
) -> tuple[list[TowerOutput], list[str]]:
    """Builds one tower on each device, in the name scope `tower_<i>/`, i from `first`; returns outputs and scopes.

    What `tower_fn` makes with `get_variable` is made once, as a resource variable on the CPU, and shared.
    """
    scopes = []
    for number in range(first, first + len(devices)):
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
    next_batch: NextBatch,
    tower_fn: TowerFn,
    optimizer: tf.compat.v1.train.Optimizer,
    devices: Sequence[str],
    first: int = 0,
) -> tuple[list[TowerOutput], ComputeGradients]:
    """Builds the towers; returns their outputs, and a function that builds their backward passes.

    That function takes a weight, a float32 scalar, and returns each tower's pairs of gradient (or None) and
    trainable variable: the gradients of its loss sum times the weight. The weight is what the backward pass starts
    from, so that it costs no pass over the parameters.
    """
    outputs, scopes = build_towers(next_batch, tower_fn, devices, first)

    def compute_gradients(weight: tf.Tensor) -> list[TowerGradients]:
        tower_gradients: list[TowerGradients] = []
        for output, scope, device in zip(outputs, scopes, devices, strict=True):
            with tf.compat.v1.device(variables_on_cpu(device)), tf.compat.v1.name_scope(scope):
                gradients = optimizer.compute_gradients(
                    output.loss_sum, grad_loss=weight, gate_gradients=tf.compat.v1.train.Optimizer.GATE_NONE
                )
            tower_gradients.append(gradients)
        return tower_gradients

    return outputs, compute_gradients
