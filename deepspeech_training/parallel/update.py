"""From the outputs and gradients of towers to one update of the parameters; the same for every strategy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import tensorflow as tf

from deepspeech_training.parallel.accumulation import Sums, accumulate
from deepspeech_training.parallel.collective import Collective
from deepspeech_training.parallel.devices import CPU
from deepspeech_training.parallel.gradients import (
    GradientsAndVariables,
    apply_gradients_if,
    average_gradients,
    clip_gradients,
    scale_gradients,
)
from deepspeech_training.parallel.loss_scale import LossScale, needed_loss_scale, scaled
from deepspeech_training.parallel.step import combine_outputs, get_or_create_global_step
from deepspeech_training.parallel.strategy import Accumulation, NextBatch, StepOps, TowerFn, TowerOutput
from deepspeech_training.parallel.towers import ComputeGradients, get_tower_results


class Applied(NamedTuple):
    """The operation that makes an update, and float scalars that are shown with it."""

    train_op: tf.Operation
    measures: Mapping[str, tf.Tensor]


Apply = Callable[[tf.Tensor, tf.compat.v1.train.Optimizer, GradientsAndVariables, tf.Variable], Applied]
"""From whether to update (bool scalar), the optimizer, gradients and the global step to the update."""


def apply_if_usable(
    usable: tf.Tensor,
    optimizer: tf.compat.v1.train.Optimizer,
    gradients: GradientsAndVariables,
    global_step: tf.Variable,
) -> Applied:
    """The update of strategies of which nothing else changes the parameters meanwhile."""
    return Applied(apply_gradients_if(usable, optimizer, gradients, global_step), {})


@dataclass(frozen=True)
class UpdateRule:
    """What stands between the towers' gradients and the parameters.

    `accumulate_steps`: batches of every tower an update. `grad_clip_norm`: greatest global norm of the averaged
    gradients, 0 for any. `collective`: sums over processes. `apply`: makes the update. `loss_scale`: None, unless
    several steps share one; then a new one is made where the towers ask for it.
    """

    accumulate_steps: int = 1
    grad_clip_norm: float = 0.0
    collective: Collective = field(default_factory=Collective)
    apply: Apply = apply_if_usable
    loss_scale: LossScale | None = None

    def with_loss_scale(self, outputs: Sequence[TowerOutput]) -> UpdateRule:
        """This rule for towers that give these `outputs`."""
        return self if self.loss_scale else replace(self, loss_scale=needed_loss_scale(outputs))


def build_update(
    outputs: Sequence[TowerOutput],
    compute_gradients: ComputeGradients,
    devices: Sequence[str],
    optimizer: tf.compat.v1.train.Optimizer,
    rule: UpdateRule,
    watch: Mapping[str, tf.Tensor],
    first: int = 0,
) -> StepOps:
    """One update from the gradients of the mean loss over all samples of all towers (and processes, and batches).

    Each tower's gradients are those of its loss sum over the number of all samples, so that adding up completes
    the mean and every sample counts alike. With several batches an update that number is known at the end only:
    then the sums are divided.

    The update is left out when a loss, or the norm of the gradients, is not finite, or when there are no samples.
    `first` is the number of the first tower.
    """
    rule = rule.with_loss_scale(outputs)
    ops = replace(combine_outputs(outputs), measures=dict(watch))
    if rule.accumulate_steps == 1:
        weight = scaled(sample_weight(outputs, rule.collective), rule.loss_scale)
        gradients = average_gradients(compute_gradients(weight))
        with tf.device(CPU), tf.compat.v1.name_scope('step'):
            sums = tf.stack([ops.count, tf.cast(tf.size(ops.bad_names), tf.float32), ops.loss_sum])
        return _finish(ops, rule.collective.sum_gradients(gradients), sums, optimizer, rule)
    pairs = zip(compute_gradients(scaled(_one(), rule.loss_scale)), devices, strict=True)
    sums = [accumulate(*pair, tower) for tower, pair in enumerate(pairs, first)]
    (ops,) = _finish_accumulated([ops], [sums], optimizer, rule)
    return ops


def build_updates_in_turn(
    next_batch: NextBatch,
    tower_fn: TowerFn,
    devices: Sequence[str],
    optimizer: tf.compat.v1.train.Optimizer,
    rule: UpdateRule,
    watch: Mapping[str, tf.Tensor],
) -> list[StepOps]:
    """The steps of towers that take turns: each has one batch, on one device.

    With several batches an update, each is computed by the tower whose turn it is, and the sums of all are applied.
    """
    turns: list[StepOps] = []
    sums: list[list[Sums]] = []
    for tower, device in enumerate(devices):
        outputs, compute_gradients = get_tower_results(next_batch, tower_fn, optimizer, [device], first=tower)
        rule = rule.with_loss_scale(outputs)
        if rule.accumulate_steps == 1:
            turns.append(build_update(outputs, compute_gradients, [device], optimizer, rule, watch))
            continue
        turns.append(replace(combine_outputs(outputs), measures=dict(watch)))
        sums.append([accumulate(compute_gradients(scaled(_one(), rule.loss_scale))[0], device, tower)])
    return turns if rule.accumulate_steps == 1 else _finish_accumulated(turns, sums, optimizer, rule)


def _finish_accumulated(
    turns: Sequence[StepOps], sums: Sequence[Sequence[Sums]], optimizer: tf.compat.v1.train.Optimizer, rule: UpdateRule
) -> list[StepOps]:
    """Completes steps that share one update: of all `sums`, of which each step adds to its own."""
    every = [total for own in sums for total in own]
    with tf.device(CPU), tf.compat.v1.name_scope('accumulation'):
        reset = tf.group(*(total.reset for total in every), name='reset')
        count = tf.compat.v1.placeholder(tf.float32, [], name='count')
        bad = tf.compat.v1.placeholder(tf.float32, [], name='bad')
        loss_sum = tf.compat.v1.placeholder(tf.float32, [], name='loss_sum')
        given = tf.stack([count, bad, loss_sum])
    gradients = rule.collective.sum_gradients(average_gradients([total.gradients for total in every]))
    finished = _finish(turns[0], gradients, given, optimizer, rule)
    steps = []
    for ops, own in zip(turns, sums, strict=True):
        with tf.compat.v1.name_scope('accumulation'):
            add = tf.group(*(total.add for total in own), name='add')
        steps.append(
            replace(
                ops,
                accumulation=Accumulation(reset, add, count, bad, loss_sum, rule.accumulate_steps),
                train_op=finished.train_op,
                applied=finished.applied,
                gradients=finished.gradients,
                gradient_norm=finished.gradient_norm,
                measures=finished.measures,
                overflowed=finished.overflowed,
                job_sums=finished.job_sums,
            )
        )
    return steps


def _finish(
    ops: StepOps,
    gradients: GradientsAndVariables,
    sums: tf.Tensor,
    optimizer: tf.compat.v1.train.Optimizer,
    rule: UpdateRule,
) -> StepOps:
    """Completes a step; `sums`, float32 `[3]`, are the samples of this process in the `gradients`, those among them
    whose loss is not finite, and the sum of the losses.

    With several batches an update, `gradients` are sums, which are divided here; so is what the loss scale multiplied.
    """
    with tf.device(CPU), tf.compat.v1.name_scope('step'):
        count, bad, loss_sum = tf.unstack(rule.collective.sum(sums, 'count'))
        job_sums = tf.stack([loss_sum, count])
    factor = _factor(count, rule)
    norm = rule.collective.norm(gradients, factor)
    with tf.device(CPU), tf.compat.v1.name_scope('step'):
        good = tf.equal(bad, 0.0) & tf.greater(count, 0.0)
        usable = good & tf.math.is_finite(norm)
    averaged = scale_gradients(gradients, factor)
    clip = rule.grad_clip_norm
    clipped = clip_gradients(gradients, norm, clip, factor) if clip > 0 else averaged
    update = rule.apply(usable, optimizer, clipped, get_or_create_global_step())
    ops = replace(
        ops,
        train_op=update.train_op,
        applied=usable,
        gradients=rule.collective.shown(averaged),
        gradient_norm=norm,
        measures={**ops.measures, **update.measures},
        job_sums=job_sums,
    )
    return ops if rule.loss_scale is None else _with_next_scale(ops, rule.loss_scale, good)


def _factor(count: tf.Tensor, rule: UpdateRule) -> tf.Tensor | None:
    """Float32 scalar that makes gradients those of the mean loss of `count` samples; None: they are."""
    if rule.accumulate_steps == 1 and rule.loss_scale is None:
        return None
    with tf.device(CPU), tf.compat.v1.name_scope('step'):
        factor = tf.constant(1.0) if rule.accumulate_steps == 1 else tf.math.divide_no_nan(1.0, count)
        return factor if rule.loss_scale is None else factor / rule.loss_scale.value


def _with_next_scale(ops: StepOps, scale: LossScale, good: tf.Tensor) -> StepOps:
    """The step that also decides on the next loss scale; `good`, a bool scalar: whether the losses are finite."""
    assert ops.applied is not None
    assert ops.gradient_norm is not None
    with tf.device(CPU), tf.compat.v1.name_scope('step'):
        overflowed = good & scale.overflowed(ops.gradient_norm)
        train_op = tf.group(ops.train_op, scale.after(ops.applied, overflowed), name='train')
    measures = {**ops.measures, 'loss_scale': scale.value}
    return replace(ops, train_op=train_op, overflowed=overflowed, measures=measures)


def _one() -> tf.Tensor:
    with tf.device(CPU):
        return tf.constant(1.0)


def sample_weight(outputs: Sequence[TowerOutput], collective: Collective) -> tf.Tensor:
    """Float32 scalar: one over the number of samples of all towers and processes, 0 when there are none."""
    with tf.device(CPU), tf.compat.v1.name_scope('sample_weight'):
        samples = [output.count if output.samples is None else output.samples for output in outputs]
        return tf.math.divide_no_nan(1.0, collective.sum(tf.add_n(samples), 'samples'))
