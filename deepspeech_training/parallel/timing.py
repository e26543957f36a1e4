"""How long the towers of a step take, and what waiting for the slowest costs; measured in the graph."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from deepspeech_training.parallel.devices import CPU
from deepspeech_training.parallel.strategy import StepOps, StepResult, TowerFn, TowerOutput
from deepspeech_training.parallel.towers import ComputeGradients, TowerGradients

AVERAGING = 'averaging_seconds'
"""Measure: from the last tower's gradients to their average, sums over processes included."""

WAIT_SHARE = 'straggler_wait_share'
"""Measure: mean over the towers of the share of a step, from the first batch to the last gradients, that they wait."""

SLOWER = 1.2
"""A straggler takes more than so many times the median of the towers."""

_WAITED = 'straggler_wait_seconds'
_WHOLE = 'towers_seconds'


def seconds_of(tower: int) -> str:
    """The measure of one tower: from its batch to its gradients, but for what it waits for the others' batches.

    It does that between its forward and its backward pass, which starts from one over the number of all samples.
    """
    return f'tower_{tower}/seconds'


class TowerClocks:
    """The timestamps of towers that work together, each taken once, of a step being built.

    They hang on operations by control dependencies alone: no gradient is copied or looked at.
    """

    def __init__(self, devices: Sequence[str], first: int) -> None:
        """`first` is the number of the first of the towers."""
        self._devices = devices
        self._first = first
        self._starts: list[tf.Tensor] = []
        self._losses: list[tf.Tensor] = []
        self._weighted: tf.Tensor | None = None
        self._ends: list[tf.Tensor] = []

    def start(self, tower_fn: TowerFn) -> TowerFn:
        """`tower_fn`, with a look at the clock when the batch is there, and one when the loss is."""

        def tower(batch: Any) -> TowerOutput:
            parts = tf.nest.flatten(batch, expand_composites=True)
            self._starts.append(_time_after([part for part in parts if isinstance(part, tf.Tensor)]))
            output = tower_fn(batch)
            self._losses.append(_time_after([output.loss_sum]))
            return output

        return tower

    def end(self, compute_gradients: ComputeGradients) -> ComputeGradients:
        """`compute_gradients`, with a look at the clock when the weight is there, and when a tower's gradients are."""

        def compute(weight: tf.Tensor) -> Sequence[TowerGradients]:
            self._weighted = _time_after([weight])
            # Nothing goes on before the clock: where another thread brings the weight, as in Horovod, it could be late.
            with tf.device(CPU), tf.control_dependencies([self._weighted]):
                weight = tf.identity(weight)
            towers = compute_gradients(weight)
            for gradients, device in zip(towers, self._devices, strict=True):
                parts = tf.nest.flatten([each for each, _ in gradients if each is not None], expand_composites=True)
                with tf.device(device), tf.compat.v1.name_scope('timing/'):
                    ready = tf.group(*parts)  # one message between the devices, not one for each gradient
                self._ends.append(_time_after([ready]))
            return towers

        return compute

    def measure(self, ops: StepOps, outputs: Sequence[TowerOutput]) -> StepOps:
        """`ops` with `timing` of each tower, of averaging, and of what several towers wait for each other."""
        # Where no process has all gradients, their norm is there when the parts are.
        averages = [gradient for gradient, _ in ops.gradients if gradient is not None] or [ops.gradient_norm]
        timing: dict[str, tf.Tensor] = {}
        measures = dict(ops.measures)
        with tf.device(CPU), tf.compat.v1.name_scope('timing/'):
            starts, losses, ends = tf.stack(self._starts), tf.stack(self._losses), tf.stack(self._ends)
            last = tf.reduce_max(ends)
            if ops.accumulation is None:
                timing[AVERAGING] = _seconds(_time_after(averages) - last)
            else:  # averaged in a run of its own
                measures[AVERAGING] = _seconds(_time_after(averages) - _time_after([]))
            if len(self._devices) > 1:
                timing[_WAITED] = _seconds(tf.reduce_mean(last - ends))
                timing[_WHOLE] = _seconds(last - tf.reduce_min(starts))
            seconds = tf.unstack(_seconds(ends - starts - tf.maximum(self._weighted - losses, 0.0)))
            for tower, output in enumerate(outputs):
                busy = (output.count if output.samples is None else output.samples) > 0
                timing[seconds_of(self._first + tower)] = tf.where(busy, seconds[tower], math.nan)
        return replace(ops, timing=timing, measures=measures)


def _time_after(what: Sequence[tf.Tensor | tf.Operation]) -> tf.Tensor:
    """Float64 scalar: the time, in seconds, when `what` is there."""
    with tf.device(CPU), tf.compat.v1.name_scope('timing/'), tf.control_dependencies(what):
        return tf.timestamp()


def _seconds(difference: tf.Tensor) -> tf.Tensor:
    """Float32; what took no time may look as if it had taken less, when an operation came late to the clock."""
    return tf.cast(tf.maximum(difference, 0.0), tf.float32)


class Stragglers:
    """Which towers the others wait for, from the results of steps.

    Steps in which a tower had only filler, at the end of an epoch, say nothing about it and are left out.
    """

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._steps = 0

    def add(self, result: StepResult) -> StepResult:
        """Takes a step into account; returns it with the measures that are to be shown."""
        measures = dict(result.measures)
        seconds = {name: value for name, value in measures.items() if name.endswith('/seconds')}
        if not seconds:
            return result
        waited, whole = measures.pop(_WAITED, None), measures.pop(_WHOLE, 0.0)
        if not all(math.isfinite(value) for value in seconds.values()):
            return replace(result, measures={name: measures[name] for name in measures if name not in seconds})
        if waited is None:  # one tower waits for nobody here
            return result
        for name, value in seconds.items():
            self._seconds[name] = self._seconds.get(name, 0.0) + value
        self._steps += 1
        return replace(result, measures={**measures, WAIT_SHARE: waited / max(whole, 1e-9)})

    def remark(self) -> str:
        """Names the stragglers since the last call, '' when there were none."""
        means = {name.split('/')[0]: total / self._steps for name, total in self._seconds.items()}
        self._seconds, self._steps = {}, 0
        median = statistics.median(means.values()) if means else 0.0
        slow = [f'{tower} {mean:.3g} s a step' for tower, mean in means.items() if mean > SLOWER * median]
        return f'slow: {", ".join(slow)}, median of the towers {median:.3g} s' if slow else ''
