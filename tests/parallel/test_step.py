from __future__ import annotations

import itertools
import os

import pytest
import tensorflow as tf

from deepspeech_training.parallel.step import combine_outputs, run_step
from deepspeech_training.parallel.strategy import TowerOutput

pytestmark = pytest.mark.usefixtures('graph')


def output(loss: float, count: float, names: list[str], seconds: float) -> TowerOutput:
    return TowerOutput(
        loss_sum=tf.constant(loss),
        count=tf.constant(count),
        bad_names=tf.constant(names, tf.string, [len(names)]),
        totals={'seconds': tf.constant(seconds)},
        per_sample={'loss': tf.constant([loss])},
    )


def test_outputs_add_up_to_python_values() -> None:
    ops = combine_outputs([output(3.0, 2.0, ['a.wav'], 0.5), output(6.0, 1.0, ['ж.wav', 'c.wav'], 0.25)])
    with tf.compat.v1.Session() as session:
        result = run_step(session, itertools.repeat(ops), fetches=lambda ops: {'loss': ops.loss})
    assert (result.loss_sum, result.count, result.totals) == (9.0, 3, {'seconds': 0.75})
    assert isinstance(result.count, int)
    assert result.bad_names == ['a.wav', 'ж.wav', 'c.wav']
    assert result.fetched == {'loss': 3.0}
    assert [tower['loss'].tolist() for tower in result.per_tower] == [[3.0], [6.0]]
    assert not result.applied


def test_file_name_that_is_not_utf8() -> None:
    tower = TowerOutput(tf.constant(0.0), tf.constant(0.0), tf.constant([b'caf\xe9.wav']))
    with tf.compat.v1.Session() as session:
        result = run_step(session, itertools.repeat(combine_outputs([tower])))
    assert [os.fsencode(name) for name in result.bad_names] == [b'caf\xe9.wav']  # it can be opened
    assert (result.totals, result.per_tower, result.fetched) == ({}, [{}], None)


def test_mean_of_no_sample_is_zero() -> None:
    ops = combine_outputs([output(0.0, 0.0, [], 0.0)])
    with tf.compat.v1.Session() as session:
        assert session.run(ops.loss) == 0


def test_towers_with_different_totals() -> None:
    other = TowerOutput(
        tf.constant(0.0), tf.constant(0.0), tf.constant([], tf.string), totals={'rows': tf.constant(1.0)}
    )
    with pytest.raises(ValueError, match='different totals'):
        combine_outputs([output(0.0, 0.0, [], 0.0), other])
