"""Horovod: one process a GPU, on one host or many; each with its part of every step's batches."""

from __future__ import annotations

import math
import os
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from deepspeech_training import log
from deepspeech_training.config import ParallelConfig
from deepspeech_training.errors import FlagError, JobError
from deepspeech_training.launch import find_launch
from deepspeech_training.parallel.collective import Collective
from deepspeech_training.parallel.devices import CPU, get_available_gpus
from deepspeech_training.parallel.flat_adam import FlatAdam, FlatSlots, Sharding
from deepspeech_training.parallel.gradients import GradientsAndVariables
from deepspeech_training.parallel.hybrid import HybridStrategy
from deepspeech_training.parallel.strategy import Fetches, Shard, StepOps, StepResult, Value
from deepspeech_training.parallel.update import UpdateRule
from deepspeech_training.workers import cores

SETTINGS = {
    # Each gradient travels by itself. In a common buffer, its place would depend on which one was ready first, and on
    # the place depends in which order the ranks' numbers are added: no two runs of three ranks would be the same.
    'HOROVOD_FUSION_THRESHOLD': '0',
    # Seconds that a rank waits for the others to start, which may have to read TensorFlow over a network.
    'HOROVOD_GLOO_TIMEOUT_SECONDS': '120',
}
"""Environment variables of Horovod that have a value here unless the user gave one."""

SECONDS_UNTIL_TOLD = 20.0
"""How long a rank waits for the others without a word."""


class HorovodStrategy(HybridStrategy):
    """The towers of all processes work as those of one `HybridStrategy`: rank r of those with T towers has the towers
    r * T to r * T + T - 1.

    Each process averages over its own towers, then `hvd.DistributedOptimizer` adds up. Gradients are weighted by the
    number of samples in all processes, so that the update equals that of one device with the concatenated batch.
    """

    name = 'horovod'

    def __init__(self, parallel: ParallelConfig, devices: Sequence[str] | None = None) -> None:
        """Waits for all processes of the job. Raises `FlagError` and `JobError`."""
        _start_horovod()
        self._gpu = _gpu_of(hvd.local_rank()) if devices is None and not parallel.cpu_towers else None
        super().__init__(parallel, ['/gpu:0'] if self._gpu is not None else devices)
        self._source = 0
        self._optimizer: FlatAdam | None = None
        self._exchange = _Exchange(self._set_threads)
        self._broadcasts: dict[tf.Graph, tf.Operation] = {}

    @property
    def rank(self) -> int:
        return int(hvd.rank())

    @property
    def world_size(self) -> int:
        return int(hvd.size())

    @property
    def cores(self) -> int:
        return max(1, cores() // hvd.local_size())

    @property
    def writes_checkpoints(self) -> bool:
        """Rank 0 does; with --checkpoint_per_node the first process of every host."""
        return self.is_chief or (self._parallel.checkpoint_per_node and hvd.local_rank() == 0)

    @property
    def learning_rate_scale(self) -> float:
        scales = {'linear': float(self.world_size), 'sqrt': math.sqrt(self.world_size), 'none': 1.0}
        return scales[self._parallel.horovod_lr_scaling]

    def configure_session(self, proto: tf.compat.v1.ConfigProto) -> None:
        """The process's own GPU only; where no flag gives a number of threads, its share of the host's cores."""
        super().configure_session(proto)
        if self._gpu is not None:
            proto.gpu_options.visible_device_list = str(self._gpu)
        self._set_threads(proto)

    def _set_threads(self, proto: tf.compat.v1.ConfigProto) -> None:
        proto.inter_op_parallelism_threads = self._parallel.inter_op_threads or self.cores
        proto.intra_op_parallelism_threads = self._parallel.intra_op_threads or self.cores

    def shard(self, rows: npt.NDArray[np.int32], sizes: npt.NDArray[np.int64], *, training: bool) -> Shard:
        """Deals out the batches as one process with all towers would: each step's first T to rank 0, and so on."""
        return deal_out(rows, sizes, self.rank, self.world_size, self.towers)

    @property
    def _first_tower(self) -> int:
        """The towers of all processes have numbers of their own: so they draw different random numbers."""
        return self.rank * self.towers

    def _rule(self) -> UpdateRule:
        gradients_on = self._devices[0] if self._gpu is not None and hvd.nccl_built() else CPU
        collective: Collective = HorovodCollective(gradients_on)
        if self._optimizer is not None:
            collective = self._sharding
        return replace(super()._rule(), collective=collective)

    @property
    def adam(self) -> Callable[..., tf.compat.v1.train.Optimizer]:
        return self._make_flat_adam if self._parallel.optimizer_sharding else tf.compat.v1.train.AdamOptimizer

    def _make_flat_adam(self, **settings: Any) -> FlatAdam:
        self._sharding = Sharding(HorovodCollective(CPU))
        self._optimizer = FlatAdam(**settings, sharding=self._sharding)
        return self._optimizer

    @property
    def sharded_slots(self) -> FlatSlots | None:
        return None if self._optimizer is None else self._optimizer.slots

    @property
    def is_source(self) -> bool:
        return self.rank == self._source

    def choose_source(self, look: Callable[[], tuple[int, int]]) -> None:
        """Rank 0, or with --checkpoint_per_node the first rank that has the best checkpoint."""
        if self._parallel.checkpoint_per_node:
            found = self.all_gather(look())
            self._source = found.index(max(found))

    def after_restore(self, session: tf.compat.v1.Session) -> None:
        """Broadcasts all global variables from the source. The first time it adds operations to the graph.

        Raises `FlagError` when `session` lacks a tower's device, `JobError` when another process is gone.
        """
        super().after_restore(session)
        if self.sharded_slots is not None:
            with _together():
                self.sharded_slots.share(session, self._source)
        if session.graph not in self._broadcasts:
            with session.graph.as_default(), tf.device(CPU), tf.compat.v1.name_scope('broadcast'):
                self._broadcasts[session.graph] = hvd.broadcast_global_variables(self._source)
        with _together():
            session.run(self._broadcasts[session.graph])

    def run_step(self, session: tf.compat.v1.Session, ops: StepOps, fetches: Fetches | None = None) -> StepResult:
        """Raises `JobError` when another process is gone."""
        with _together():
            return super().run_step(session, ops, fetches)

    def probe(self, session: tf.compat.v1.Session, ops: StepOps) -> None:
        """Raises `JobError` when another process is gone."""
        with _together():
            super().probe(session, ops)

    def all_sum(self, values: Sequence[float]) -> list[float]:
        """Added up by rank, so that the sums are the same to the last bit everywhere."""
        return [sum(column) for column in zip(*self.all_gather(list(values)), strict=True)]

    def all_gather(self, value: Value) -> list[Value]:
        return [pickle.loads(data) for data in self._exchange.all_gather(pickle.dumps(value))]

    def agree(self, value: Value) -> Value:
        return self.all_gather(value)[self._source]


class HorovodCollective(Collective):
    """Sums over Horovod's processes; those of gradients on the device `gradients_on`."""

    def __init__(self, gradients_on: str) -> None:
        self._gradients_on = gradients_on

    @property
    def size(self) -> int:
        return int(hvd.size())

    @property
    def rank(self) -> int:
        return int(hvd.rank())

    def sum(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        return hvd.allreduce(tensor, op=hvd.Sum, name=f'sum_{name}')

    def reduce_scatter(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        return hvd.reducescatter(tensor, op=hvd.Sum, name=f'scatter_{name}')

    def all_gather(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        return hvd.allgather(tensor, name=f'gather_{name}')

    def broadcast(self, tensor: tf.Tensor, source: int, name: str) -> tf.Tensor:
        return hvd.broadcast(tensor, source, name=f'broadcast_{name}')

    def sum_gradients(self, gradients: GradientsAndVariables) -> GradientsAndVariables:
        optimizer = hvd.DistributedOptimizer(
            _Given(gradients), name='horovod', op=hvd.Sum, device_dense=self._gradients_on
        )
        summed: GradientsAndVariables = optimizer.compute_gradients()
        return summed


class _Given(tf.compat.v1.train.Optimizer):
    """Has gradients already; all that is left to `hvd.DistributedOptimizer` is to reduce them.

    Horovod matches the processes' tensors by name, so these have names without the number of a tower.
    """

    def __init__(self, gradients: GradientsAndVariables) -> None:
        super().__init__(use_locking=False, name='given')
        self._gradients = gradients

    def compute_gradients(self, *_: object, **__: object) -> GradientsAndVariables:
        with tf.compat.v1.name_scope('gradient_of/'):
            return [(tf.identity(gradient, variable.op.name), variable) for gradient, variable in self._gradients]


class _Exchange:
    """Hands bytes round, in a graph and a session of its own: the training's graph may be finalized."""

    def __init__(self, set_threads: Callable[[tf.compat.v1.ConfigProto], None]) -> None:
        """`set_threads`: as for the session of training. All sessions of a process share the threads of its first one,
        which is this.
        """
        with tf.Graph().as_default() as graph, tf.device(CPU):
            self._data = tf.compat.v1.placeholder(tf.uint8, [None])
            self._gathered = (
                hvd.allgather(tf.size(self._data)[tf.newaxis], name='exchange_sizes'),
                hvd.allgather(self._data, name='exchange'),
            )
        proto = tf.compat.v1.ConfigProto(device_count={'GPU': 0})
        set_threads(proto)
        self._session = tf.compat.v1.Session(graph=graph, config=proto)

    def all_gather(self, data: bytes) -> list[bytes]:
        """The bytes of each process, by rank."""
        with _together():
            sizes, gathered = self._session.run(self._gathered, {self._data: np.frombuffer(data, np.uint8)})
        return [part.tobytes() for part in np.split(gathered, np.cumsum(sizes)[:-1])]


def deal_out(rows: npt.NDArray[np.int32], sizes: npt.NDArray[np.int64], rank: int, ranks: int, towers: int) -> Shard:
    """The part of `rows` (int32 `[count]`) that `rank` of `ranks` processes with `towers` each has.

    `rows` are batches of `sizes` (int64 `[batches]`); with G = `ranks` * `towers`, step s uses the batches s * G to
    s * G + G - 1, of which this process has those from s * G + `rank` * `towers` on.
    """
    together = ranks * towers
    steps = -(-len(sizes) // together)
    numbers = np.arange(steps * together).reshape(steps, ranks, towers)[:, rank].ravel()
    own = numbers[numbers < len(sizes)]
    owners = np.arange(len(sizes)) // towers % ranks
    return Shard(rows[np.repeat(owners == rank, sizes)], sizes[own], len(numbers) - len(own), steps, numbers)


def _start_horovod() -> None:
    """Raises `FlagError` when Horovod does not see the processes that the launcher started, and `JobError`."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    waiting = threading.Timer(SECONDS_UNTIL_TOLD, log.warn, ['Waiting for the other ranks to start'])
    waiting.start()
    try:
        hvd.init()
    except (ValueError, RuntimeError) as error:
        raise JobError(f'--horovod: the processes of this job did not find together: {error}') from error
    finally:
        waiting.cancel()
    launch = find_launch()
    if launch.variable and hvd.size() != launch.size:
        raise FlagError(
            f'--horovod: {launch.size} processes were started ({launch.variable}={launch.size}), but Horovod counts '
            f'{hvd.size()}. It was built {"with" if hvd.mpi_built() else "without"} MPI: start the job with horovodrun '
            '--gloo, or install MPI (libopenmpi-dev, openmpi-bin) and run bin/install_horovod.sh again'
        )


def _gpu_of(local_rank: int) -> int | None:
    """Which of the GPUs it sees this process uses; None where there is none."""
    gpus = len(get_available_gpus())
    if local_rank < gpus:
        return local_rank
    if gpus == 1 and os.environ.get('CUDA_VISIBLE_DEVICES'):  # the launcher gave each process its own
        return 0
    if not gpus:
        return None
    raise FlagError(
        f'--horovod: this is process {local_rank + 1} on this host, which has {gpus} GPUs: start at most as many '
        'processes on it (horovodrun -np N -H host:GPUs,...)'
    )


@contextmanager
def _together() -> Iterator[None]:
    """Raises `JobError` for the errors with which Horovod says that another process is gone."""
    try:
        yield
    except tf.errors.OpError as error:
        if 'Horovod has been shut down' in error.message or (error.op and error.op.type.startswith('Horovod')):
            raise JobError("another rank ended; its message, or the launcher's, says why") from None
        raise
