"""Where things run, read from the graphs that TensorFlow executed."""

from __future__ import annotations

import re

import tensorflow as tf

from deepspeech_training.parallel.sync import TurnOps

from .conftest import Case
from .job import Job
from .toy import ToyData, ToyJob


def executed_on(job: Job) -> dict[str, set[str]]:
    """The devices on which each operation of training was executed, on all towers, like `cpu:1`."""
    devices: dict[str, set[str]] = {}
    for ops in job.training.turns if isinstance(job.training, TurnOps) else [job.training]:
        options = tf.compat.v1.RunOptions(output_partition_graphs=True)
        metadata = tf.compat.v1.RunMetadata()
        job.session.run([ops.train_op, ops.loss], options=options, run_metadata=metadata)
        for partition in metadata.partition_graphs:
            for node in partition.node:
                spec = tf.DeviceSpec.from_string(node.device)
                devices.setdefault(node.name, set()).add(f'{spec.device_type}:{spec.device_index}'.lower())
    return devices


def test_towers_on_their_devices_averages_and_update_on_the_cpu(case: Case) -> None:
    with ToyJob(case.create(), ToyData.random(12), batch_size=2) as job:
        devices = executed_on(job)
        towers = job.strategy.towers
        first = job.strategy.rank * towers
        together = job.strategy.batches_a_step > 1
        variables = list(job.variables.values())
    for tower in range(towers):
        products = [name for name in devices if name.startswith(f'tower_{first + tower}/') and 'MatMul' in name]
        assert any('gradients' in name for name in products)
        assert all(devices[name] == {f'cpu:{tower}'} for name in products)
    averages = [name for name in devices if name.startswith('average_gradients/AddN')]
    assert len(averages) == (2 if together else 0)
    if (
        case.parallel.optimizer_sharding and not case.parallel.horovod
    ):  # the moments of w are with the first tower, those of b with the second
        moments = {'w/Adam': 0, 'w/Adam_1': 0, 'b/Adam': 1, 'b/Adam_1': 1}
        assert {name: devices[name] for name in moments} == {name: {f'cpu:{n}'} for name, n in moments.items()}
        variables = [variable for variable in variables if variable.op.name not in moments]
    updates = [name for name in devices if re.match('ResourceApplyAdam|AssignSub', name.rpartition('/')[2])]
    assert len(updates) >= 2
    reads = [name for name in devices if name.startswith('tower_') and name.endswith('/ReadVariableOp')]
    assert len(reads) == 2 * towers
    on_cpu = [*averages, *updates, *reads, *(variable.op.name for variable in variables if variable.op.name in devices)]
    assert {name: devices[name] for name in on_cpu if devices[name] != {'cpu:0'}} == {}
    assert {'w', 'b'} <= set(on_cpu)


def test_one_tower_adds_no_work_over_the_parameters(one_device: Case) -> None:
    """What `average_gradients` gives is what the backward pass gave."""
    with ToyJob(one_device.create(), ToyData.random(4), batch_size=2) as job:
        for gradient, _ in job.training.gradients:
            assert gradient.op.name.startswith('tower_0/gradients/')


def test_a_batch_waits_for_the_one_before_and_nothing_else_does(case: Case) -> None:
    with ToyJob(case.create(), ToyData.random(4), batch_size=2, evaluation=True) as job:
        takes = [op for op in job.graph.get_operations() if op.type == 'IteratorGetNext']
        towers = job.strategy.towers
        assert len(takes) == 2 * towers
        for position, take in enumerate(takes):
            together = job.strategy.batches_a_step if position < towers else towers
            expected = [takes[position - 1]] if position % together else []
            assert take.control_inputs == expected
        others = [op for op in job.graph.get_operations() if op.name.startswith('tower_') and op not in takes]
        assert not any(set(op.control_inputs) & set(takes) for op in others)
