"""Every strategy's update is that of one device with the concatenated batch."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from .conftest import Case
from .toy import BETA1, BETA2, Reference, ToyBatch, ToyData, ToyJob, counted, summed, toy_losses


def assert_close(actual: np.ndarray, expected: np.ndarray | float, what: str) -> None:
    """Equal to the accuracy of float32 after a few updates."""
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=1e-6, err_msg=what)


def test_two_updates_computed_by_hand(case: Case) -> None:
    """Two samples, (x=1, y=1) and (x=2, y=0), twice; w and b start at 0, the learning rate is 0.1."""
    data = ToyData(np.array([[1], [2]], np.float32), np.array([1, 0], np.float32))
    batch_size = -(-2 // case.batches_per_update)
    with ToyJob(case.create(), data, batch_size) as job:
        first = job.step()
        state = job.state()
        # Errors -1 and 0: loss (1 + 0) / 2, both gradients (2 * -1 + 0) / 2 = -1, so both go up by 0.1.
        assert first.loss_sum / first.count == pytest.approx(0.5)
        assert first.gradient_norm == pytest.approx(np.sqrt(2))
        assert [state['w:0'][0], state['b:0']] == pytest.approx([0.1, 0.1], rel=1e-5)
        job.start()
        second = job.step()
        state = job.state()
        # Errors -0.8 and 0.3: gradients (-1.6 + 1.2) / 2 = -0.2 and (-1.6 + 0.6) / 2 = -0.5;
        # m / (1 - 0.9^2): 0.11 / 0.19 and 0.14 / 0.19; v / (1 - 0.999^2): 0.001039 / 0.001999 and 0.001249 / 0.001999.
        assert second.loss_sum / second.count == pytest.approx(0.365, rel=1e-5)
        assert second.gradient_norm == pytest.approx(np.sqrt(0.29), rel=1e-5)
        assert [state['w:0'][0], state['b:0']] == pytest.approx([0.1803040, 0.1932179], rel=1e-5)


def test_follows_numpy_through_epochs(case: Case) -> None:
    data = ToyData.random(11)
    reference = Reference(np.zeros(3))
    with ToyJob(case.create(), data, batch_size=2) as job:
        group = 2 * case.batches_per_update
        for _ in range(3):
            job.start()
            for start in range(0, 11, group):
                rows = list(range(start, min(start + group, 11)))
                norm = np.linalg.norm(reference.gradient(data, rows))
                loss = reference.loss(data, rows)
                result = job.step()
                assert result.loss_sum / result.count == pytest.approx(loss, rel=1e-4)
                assert result.gradient_norm == pytest.approx(norm, rel=1e-4)
                reference.update(data, rows)
                state = job.state()
                assert_close(state['w:0'], reference.w, 'w')
                assert_close(state['b:0'], reference.b, 'b')


@pytest.mark.parametrize('batch_size', [1, 2])
def test_equals_one_device_with_the_concatenated_batch(case: Case, one_device: Case, batch_size: int) -> None:
    data = ToyData.random(7)
    with (
        ToyJob(case.create(), data, batch_size) as job,
        ToyJob(one_device.create(), data, batch_size * case.batches_per_update) as single,
    ):
        for count in (1, 3, 5, 7):
            job.start_with(count)
            single.start_with(count)
            results, expected = job.rest_of_epoch(), single.rest_of_epoch()
            assert counted(results) == counted(expected)
            for ours, theirs in zip(results, expected, strict=True):
                assert ours.count == theirs.count
                assert ours.loss_sum == pytest.approx(theirs.loss_sum, rel=1e-5)
                assert ours.gradient_norm == pytest.approx(theirs.gradient_norm, rel=1e-5)
            wanted = single.state()
            for name, value in job.state().items():
                assert_close(value, wanted[name], f'{name} after {count} samples')


@pytest.mark.parametrize('batch_size', [1, 2, 4])
def test_an_epoch_uses_every_sample_once_and_in_order(case: Case, batch_size: int) -> None:
    with ToyJob(case.create(), ToyData.random(7), batch_size, evaluation=True) as job:
        for count in (1, 3, 5, 7):
            for ops in (job.training, job.evaluation):
                job.start_with(count)
                results = job.rest_of_epoch(ops)
                assert [row for rows in counted(results) for row in rows] == list(range(count))
                assert [result.count for result in results] == [len(rows) for rows in counted(results)]
                assert sum(result.totals['rows'] for result in results) == count


def test_an_update_advances_adam_and_the_global_step_once(case: Case) -> None:
    with ToyJob(case.create(), ToyData.random(7), batch_size=1) as job:
        steps = len(job.rest_of_epoch())
        state = job.state()
    assert steps == -(-7 // case.batches_per_update)
    assert state['global_step:0'] == steps
    assert state['beta1_power:0'] == pytest.approx(BETA1 ** (steps + 1), rel=1e-5)
    assert state['beta2_power:0'] == pytest.approx(BETA2 ** (steps + 1), rel=1e-5)


def test_variables_have_the_names_of_checkpoints(case: Case) -> None:
    with ToyJob(case.create(), ToyData.random(3), batch_size=1) as job:
        assert sorted(job.state()) == [
            'b/Adam:0',
            'b/Adam_1:0',
            'b:0',
            'beta1_power:0',
            'beta2_power:0',
            'global_step:0',
            'w/Adam:0',
            'w/Adam_1:0',
            'w:0',
        ]


def test_gradients_are_those_of_the_mean_loss(case: Case) -> None:
    data = ToyData.random(5)
    if case.parallel.horovod and case.parallel.optimizer_sharding:
        pytest.skip('no process has all gradients')
    with ToyJob(case.create(), data, batch_size=2) as job:
        result = job.step(fetches=lambda ops: [gradient for gradient, _ in ops.gradients])
        names = [variable.name for _, variable in job.training.gradients]
    rows = list(range(min(5, 2 * case.batches_per_update)))
    expected = Reference(np.zeros(3)).gradient(data, rows)
    assert names == ['w:0', 'b:0']
    np.testing.assert_allclose(result.fetched[0], expected[:3], rtol=1e-5)
    np.testing.assert_allclose(result.fetched[1], expected[3], rtol=1e-5)


def _tower_with_table(batch: ToyBatch):  # type: ignore[no-untyped-def]
    """Has a variable with sparse gradients, one that no loss depends on and one that is not trained."""
    table = tf.compat.v1.get_variable('table', [4, 3], initializer=tf.compat.v1.ones_initializer())
    tf.compat.v1.get_variable('unused', [2], initializer=tf.compat.v1.ones_initializer())
    scale = tf.compat.v1.get_variable('scale', [], initializer=tf.compat.v1.ones_initializer(), trainable=False)
    rows = tf.gather(table, tf.maximum(batch.indices, 0) % 4)
    return summed(toy_losses(batch) + scale * tf.reduce_sum(tf.square(rows), axis=1), batch)


def test_sparse_and_missing_gradients(case: Case, one_device: Case) -> None:
    data = ToyData.random(7)
    with (
        ToyJob(case.create(), data, 2, tower_fn=_tower_with_table) as job,
        ToyJob(one_device.create(), data, 2 * case.batches_per_update, tower_fn=_tower_with_table) as single,
    ):
        for ours, theirs in zip(job.rest_of_epoch(), single.rest_of_epoch(), strict=True):
            assert ours.gradient_norm == pytest.approx(theirs.gradient_norm, rel=1e-5)
        state, expected = job.state(), single.state()
    for name, value in state.items():
        assert_close(value, expected[name], name)
    assert not np.allclose(state['table:0'], 1)
    assert state['unused:0'].tolist() == [1, 1]
    assert state['scale:0'] == 1


def _tower_with_dropout(batch: ToyBatch):  # type: ignore[no-untyped-def]
    kept = tf.nn.dropout(batch.x, rate=0.5)
    return summed(toy_losses(batch._replace(x=kept)), batch)


def test_the_same_seed_gives_the_same_run(case: Case) -> None:
    data = ToyData.random(13)

    def run(seed: int) -> tuple[list[list[int]], dict[str, np.ndarray]]:
        with ToyJob(case.create(), data, 2, tower_fn=_tower_with_dropout, seed=seed) as job:
            rows = []
            for _ in range(4):
                job.start()
                rows += counted(job.rest_of_epoch())
            return rows, job.state()

    rows, state = run(seed=3)
    rows_again, state_again = run(seed=3)
    _, other = run(seed=4)
    assert rows == rows_again
    assert {name: value.tolist() for name, value in state.items()} == {
        name: value.tolist() for name, value in state_again.items()
    }
    assert state['w:0'].tolist() != other['w:0'].tolist()
