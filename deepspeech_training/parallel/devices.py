"""Where things run: the devices of the towers, the session's devices, variables on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from deepspeech_training.config import ParallelConfig
from deepspeech_training.errors import FlagError

CPU = '/cpu:0'
"""Home of the variables, the input, the averages and the update."""

VARIABLE_OPS = frozenset(
    {
        'VarHandleOp',
        'VarIsInitializedOp',
        'ReadVariableOp',
        'AssignVariableOp',
        'AssignAddVariableOp',
        'AssignSubVariableOp',
        'ResourceGather',
        'ResourceGatherNd',
        'VariableShape',
        'Variable',
        'VariableV2',
        'Assign',
        'IsVariableInitialized',
    }
)
"""Operations that must be where their variable is."""


def get_available_gpus() -> list[str]:
    """Device names of the GPUs this process may use; only lists them, reserves no memory on them."""
    return [f'/gpu:{number}' for number in range(len(tf.config.list_physical_devices('GPU')))]


def compute_capabilities() -> list[tuple[int, int] | None]:
    """The compute capability of each GPU this process may use; None where there is none to know."""
    details = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.list_physical_devices('GPU')]
    return [detail.get('compute_capability') for detail in details]


def tower_devices(parallel: ParallelConfig) -> list[str]:
    """One device a tower: `cpu_towers` virtual CPUs if asked for, else every GPU, else the CPU.

    Raises `FlagError` for a negative number of towers.
    """
    if parallel.cpu_towers < 0:
        raise FlagError(f'--cpu_towers {parallel.cpu_towers}: a number of towers, or 0 for one tower per GPU')
    if parallel.cpu_towers:
        return [f'/cpu:{number}' for number in range(parallel.cpu_towers)]
    return get_available_gpus() or [CPU]


def configure_devices(proto: tf.compat.v1.ConfigProto, parallel: ParallelConfig) -> None:
    """Sets virtual CPU devices, threads, GPU memory and placement on `proto`.

    Soft placement is needed: operations without a GPU kernel (CTC loss, beam search, MFCCs, everything on
    strings) stand inside towers and go to the CPU. It also hides a missing device, hence `check_devices`.
    """
    if parallel.cpu_towers:
        proto.device_count['CPU'] = parallel.cpu_towers
        proto.device_count['GPU'] = 0
    proto.allow_soft_placement = True
    proto.log_device_placement = parallel.log_placement
    proto.inter_op_parallelism_threads = parallel.inter_op_threads
    proto.intra_op_parallelism_threads = parallel.intra_op_threads
    proto.gpu_options.allow_growth = parallel.use_allow_growth


def check_devices(session: tf.compat.v1.Session, devices: Sequence[str]) -> None:
    """Raises `FlagError` when `session` lacks one of `devices`.

    Virtual CPU devices belong to a session and are made with it: a session that was not made with the
    strategy's `configure_session` has one, and would put all towers there without a word.
    """
    present = {
        (spec.device_type, spec.device_index)
        for spec in (tf.DeviceSpec.from_string(device.name) for device in session.list_devices())
    }
    missing = [device for device in devices if _type_and_index(device) not in present]
    if missing:
        raise FlagError(
            f'The towers want the devices {", ".join(devices)}; the session lacks {", ".join(missing)}. '
            'Make the session with the ConfigProto that configure_session() filled; '
            'for towers on the CPU give their number with --cpu_towers.'
        )


def _type_and_index(device: str) -> tuple[str, int]:
    spec = tf.DeviceSpec.from_string(device)
    return spec.device_type, spec.device_index


def variables_on_cpu(device: str) -> Callable[[tf.Operation], str]:
    """A function for `tf.compat.v1.device`: variables and their reads on the CPU, the rest on `device`.

    A device named by an inner scope stays.
    """
    cpu, own = (tf.DeviceSpec.from_string(name).to_string() for name in (CPU, device))

    def place(operation: tf.Operation) -> str:
        if operation.device:
            return str(operation.device)
        return cpu if operation.type in VARIABLE_OPS else own

    return place


def create_on_cpu(getter: Callable[..., tf.Variable], *args: Any, **kwargs: Any) -> tf.Variable:
    """A custom getter for variable scopes: creates, and initializes, variables on the CPU."""
    with tf.device(CPU):
        return getter(*args, **kwargs)
