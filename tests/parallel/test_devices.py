from __future__ import annotations

import pytest
import tensorflow as tf

from deepspeech_training.config import ParallelConfig
from deepspeech_training.errors import FlagError
from deepspeech_training.parallel.devices import (
    check_devices,
    configure_devices,
    create_on_cpu,
    get_available_gpus,
    tower_devices,
    variables_on_cpu,
)


def test_one_tower_for_each_gpu_or_one_on_the_cpu() -> None:
    gpus = [f'/gpu:{number}' for number in range(len(tf.config.list_physical_devices('GPU')))]
    assert get_available_gpus() == gpus
    assert tower_devices(ParallelConfig()) == (gpus or ['/cpu:0'])


def test_cpu_towers() -> None:
    assert tower_devices(ParallelConfig(cpu_towers=3)) == ['/cpu:0', '/cpu:1', '/cpu:2']
    with pytest.raises(FlagError, match='--cpu_towers -2'):
        tower_devices(ParallelConfig(cpu_towers=-2))


def test_session_has_as_many_cpus_as_towers() -> None:
    for towers in (3, 1, 2):
        proto = tf.compat.v1.ConfigProto()
        configure_devices(proto, ParallelConfig(cpu_towers=towers))
        with tf.compat.v1.Session(graph=tf.Graph(), config=proto) as session:
            assert [device.device_type for device in session.list_devices()] == ['CPU'] * towers
            check_devices(session, [f'/cpu:{number}' for number in range(towers)])


def test_session_settings() -> None:
    proto = tf.compat.v1.ConfigProto()
    configure_devices(proto, ParallelConfig(inter_op_threads=3, intra_op_threads=2, use_allow_growth=True))
    assert (proto.inter_op_parallelism_threads, proto.intra_op_parallelism_threads) == (3, 2)
    assert proto.gpu_options.allow_growth
    assert proto.allow_soft_placement
    assert not proto.log_device_placement
    assert not proto.device_count


def test_missing_devices_are_named() -> None:
    with (
        tf.compat.v1.Session(graph=tf.Graph()) as session,
        pytest.raises(FlagError, match=r'the session lacks /cpu:1, /gpu:7'),
    ):
        check_devices(session, ['/cpu:0', '/cpu:1', '/gpu:7'])


def test_variables_stay_on_the_cpu(graph: tf.Graph) -> None:
    scope = tf.compat.v1.variable_scope('', custom_getter=create_on_cpu, use_resource=True)
    with tf.compat.v1.device(variables_on_cpu('/gpu:1')), scope:
        variable = tf.compat.v1.get_variable('w', [2, 2])
        read = variable.read_value()
        tf.gather(variable, 0)
        product = tf.matmul(read, read)
        with tf.device('/cpu:3'):
            elsewhere = tf.square(product)
    variable_ops = {op.device for op in graph.get_operations() if op.name.startswith('w')}
    assert variable_ops <= {'', '/device:CPU:0'}  # '': colocated with the variable
    assert variable.device == '/device:CPU:0'
    reads = [op for op in graph.get_operations() if op.type in ('ReadVariableOp', 'ResourceGather')]
    assert len(reads) >= 2
    assert {op.device for op in reads} <= {'', '/device:CPU:0'}
    assert product.op.device == '/device:GPU:1'
    assert elsewhere.op.device == '/device:CPU:3'
