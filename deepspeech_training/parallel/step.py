"""One step: what the towers give, put together in the graph, and run as Python values."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from deepspeech_training.parallel.devices import CPU
from deepspeech_training.parallel.strategy import Accumulation, Fetches, StepOps, StepResult, Summarize, TowerOutput


def combine_outputs(outputs: Sequence[TowerOutput]) -> StepOps:
    """Sums over the towers, on the CPU; no training.

    Raises `ValueError` when the towers have different `totals`.
    """
    keys = list(outputs[0].totals)
    if any(set(output.totals) != set(keys) for output in outputs):
        raise ValueError(f'The towers have different totals: {[sorted(output.totals) for output in outputs]}')
    with tf.device(CPU), tf.compat.v1.name_scope('step'):
        loss_sum = tf.add_n([output.loss_sum for output in outputs])
        count = tf.add_n([output.count for output in outputs])
        return StepOps(
            loss_sum=loss_sum,
            count=count,
            loss=tf.math.divide_no_nan(loss_sum, count, name='loss'),
            bad_names=tf.concat([output.bad_names for output in outputs], axis=0, name='bad_names'),
            totals={key: tf.add_n([output.totals[key] for output in outputs]) for key in keys},
            per_tower=[dict(output.per_sample) for output in outputs],
        )


def with_summary(ops: StepOps, summarize: Summarize | None) -> StepOps:
    """`ops` with what `summarize` makes of them."""
    return ops if summarize is None else replace(ops, summary=summarize(ops))


def run_step(session: tf.compat.v1.Session, turns: Iterator[StepOps], fetches: Fetches | None = None) -> StepResult:
    """Runs one update, with batches through the operations that `turns` gives; see `Strategy.run_step`.

    Raises `tf.errors.OutOfRangeError` at the end of the data; then nothing was changed.
    """
    ops = next(turns)
    if ops.accumulation is not None:
        return _run_accumulated(session, ops, turns, fetches)
    values = session.run(_batch_fetches(ops) | _update_fetches(ops, fetches))
    return _result([values], values)


def probe(session: tf.compat.v1.Session, turns: Sequence[StepOps]) -> None:
    """The forward and backward passes of `turns`, all at once, without an update; see `Strategy.probe`.

    Of the variables that last, none is changed; sums of gradients are 0 again.
    """
    targets = []
    for ops in turns:
        assert ops.gradient_norm is not None
        targets.append(ops.gradient_norm.op if ops.accumulation is None else ops.accumulation.add)
    resets = [ops.accumulation.reset for ops in turns if ops.accumulation is not None]
    session.run(resets)
    session.run(targets)
    session.run(resets)


def _run_accumulated(
    session: tf.compat.v1.Session, ops: StepOps, turns: Iterator[StepOps], fetches: Fetches | None
) -> StepResult:
    accumulation = _accumulation(ops)
    session.run(accumulation.reset)
    batches: list[dict[str, Any]] = []
    while True:
        try:
            batches.append(session.run(_batch_fetches(ops) | {'add': _accumulation(ops).add}))
        except tf.errors.OutOfRangeError:
            if not batches:
                raise
            break
        if len(batches) == accumulation.steps:
            break
        ops = next(turns)
    feed = {
        accumulation.count: sum(batch['count'] for batch in batches),
        accumulation.bad: sum(len(batch['bad_names']) for batch in batches),
        accumulation.loss_sum: sum(batch['loss_sum'] for batch in batches),
    }
    return _result(batches, session.run(_update_fetches(ops, fetches), feed))


def _accumulation(ops: StepOps) -> Accumulation:
    assert ops.accumulation is not None
    return ops.accumulation


def _batch_fetches(ops: StepOps) -> dict[str, Any]:
    return {
        'loss_sum': ops.loss_sum,
        'count': ops.count,
        'bad_names': ops.bad_names,
        'totals': dict(ops.totals),
        'per_tower': list(ops.per_tower),
        'timing': dict(ops.timing),
    }


def _update_fetches(ops: StepOps, fetches: Fetches | None) -> dict[str, Any]:
    wanted: dict[str, Any] = {'measures': dict(ops.measures)}
    if ops.train_op is not None:
        wanted |= {'train_op': ops.train_op, 'applied': ops.applied, 'gradient_norm': ops.gradient_norm}
        wanted['job_sums'] = ops.job_sums
    if ops.overflowed is not None:
        wanted['overflowed'] = ops.overflowed
    if fetches is not None:
        wanted['fetched'] = fetches(ops)
    return wanted


def _result(batches: Sequence[Mapping[str, Any]], update: Mapping[str, Any]) -> StepResult:
    def added(kind: str) -> dict[str, float]:
        return {key: sum(float(batch[kind][key]) for batch in batches) for key in batches[0][kind]}

    job_loss_sum, job_count = update.get('job_sums', (0.0, 0.0))
    return StepResult(
        loss_sum=sum(float(batch['loss_sum']) for batch in batches),
        count=round(sum(float(batch['count']) for batch in batches)),
        bad_names=[os.fsdecode(name) for batch in batches for name in batch['bad_names']],
        totals=added('totals'),
        applied=bool(update.get('applied', False)),
        gradient_norm=float(update.get('gradient_norm', 0.0)),
        per_tower=[tower for batch in batches for tower in batch['per_tower']],
        batches=len(batches),
        measures=added('timing') | {key: float(value) for key, value in update['measures'].items()},
        fetched=update.get('fetched'),
        overflowed=bool(update.get('overflowed', False)),
        job_loss_sum=float(job_loss_sum),
        job_count=round(float(job_count)),
    )


def get_or_create_global_step() -> tf.Variable:
    """The graph's `global_step` (int64), which counts the updates; a resource variable where it is new."""
    with (
        tf.device(CPU),
        tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), use_resource=True, auxiliary_name_scope=False),
    ):
        return tf.compat.v1.train.get_or_create_global_step()
