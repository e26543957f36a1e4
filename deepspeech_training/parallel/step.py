"""One step: what the towers give, put together in the graph, and run as Python values."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from deepspeech_training.parallel.devices import CPU
from deepspeech_training.parallel.strategy import StepOps, StepResult, TowerOutput


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


def run_step(session: tf.compat.v1.Session, ops: StepOps, fetches: Any = None) -> StepResult:
    """Runs `ops` in one `session.run`, `fetches` with them; see `Strategy.run_step`.

    Raises `tf.errors.OutOfRangeError` at the end of the data; then nothing was changed.
    """
    wanted: dict[str, Any] = {
        'loss_sum': ops.loss_sum,
        'count': ops.count,
        'bad_names': ops.bad_names,
        'totals': dict(ops.totals),
        'per_tower': list(ops.per_tower),
    }
    if ops.train_op is not None:
        wanted |= {'train_op': ops.train_op, 'applied': ops.applied, 'gradient_norm': ops.gradient_norm}
    if fetches is not None:
        wanted['fetched'] = fetches
    values = session.run(wanted)
    return StepResult(
        loss_sum=float(values['loss_sum']),
        count=round(float(values['count'])),
        bad_names=[os.fsdecode(name) for name in values['bad_names']],
        totals={key: float(value) for key, value in values['totals'].items()},
        applied=bool(values.get('applied', False)),
        gradient_norm=float(values.get('gradient_norm', 0.0)),
        per_tower=values['per_tower'],
        fetched=values.get('fetched'),
    )
