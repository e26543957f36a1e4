"""What needs no second process: how batches are dealt out, and Horovod with one process."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.config import ParallelConfig
from deepspeech_training.data.batches import equal_sizes
from deepspeech_training.errors import FlagError
from deepspeech_training.parallel.hybrid import HybridStrategy
from deepspeech_training.parallel.registry import create_strategy
from deepspeech_training.parallel.strategy import TowerOutput
from tests.jobs import needs_horovod

if TYPE_CHECKING:
    from deepspeech_training.parallel.strategy import Shard

MODULE = 'deepspeech_training.parallel.horovod'


def test_a_horovod_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there, but was built for another TensorFlow, say."""
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    monkeypatch.setitem(sys.modules, 'horovod.tensorflow', None)
    with pytest.raises(FlagError, match=r'^--horovod: Horovod cannot be loaded \(.*\): bin/install_horovod\.sh'):
        create_strategy(ParallelConfig(horovod=True))


@pytest.fixture
def module() -> Iterator[Any]:
    """The module, with a Horovod that starts anew."""
    loaded = importlib.import_module(MODULE)
    yield loaded
    loaded.hvd.shutdown()


def deal(module: Any, sizes: Sequence[int], ranks: int, towers: int) -> list[Shard]:
    rows = np.arange(sum(sizes), dtype=np.int32)[::-1]
    return [module.deal_out(rows, np.array(sizes, np.int64), rank, ranks, towers) for rank in range(ranks)]


def batches_of(shard: Shard) -> list[list[int]]:
    """Cut as the input pipeline does, with its fillers, which are empty here."""
    return cut(shard.rows.tolist(), shard.sizes.tolist()) + [[]] * shard.fillers


def cut(rows: list[int], sizes: Sequence[int]) -> list[list[int]]:
    rest = iter(rows)
    return [[next(rest) for _ in range(size)] for size in sizes]


@needs_horovod
@pytest.mark.parametrize('batch_size', [1, 2, 3, 8])
@pytest.mark.parametrize('towers', [1, 2, 3])
@pytest.mark.parametrize('ranks', [1, 2, 3, 8])
def test_all_steps_have_the_batches_of_one_process(module: Any, ranks: int, towers: int, batch_size: int) -> None:
    for count in (*range(8), 23, 24, 25, 100):
        sizes = equal_sizes(count, batch_size)
        sizes[::3] += 2  # batches of different sizes
        shards = deal(module, sizes.tolist(), ranks, towers)
        own = [batches_of(shard) for shard in shards]
        together = ranks * towers
        expected = cut(list(range(sizes.sum()))[::-1], sizes.tolist())
        expected += [[]] * (-len(expected) % together)
        steps = len(expected) // together
        assert {shard.steps for shard in shards} == {steps}
        assert [shard.batches + shard.fillers for shard in shards] == [steps * towers] * ranks
        dealt = [
            batch for step in range(steps) for batches in own for batch in batches[step * towers : (step + 1) * towers]
        ]
        assert dealt == expected
        assert all(shard.rows.dtype == np.int32 for shard in shards)


@needs_horovod
def test_five_rows_on_two_ranks(module: Any) -> None:
    first, second = deal(module, [1] * 5, ranks=2, towers=1)
    assert (first.rows.tolist(), first.batches, first.fillers, first.steps) == ([4, 2, 0], 3, 0, 3)
    assert (second.rows.tolist(), second.batches, second.fillers, second.steps) == ([3, 1], 2, 1, 3)


@needs_horovod
def test_one_process_alone(module: Any) -> None:
    tf.compat.v1.disable_v2_behavior()
    strategy = create_strategy(ParallelConfig(horovod=True, checkpoint_per_node=True))
    assert (strategy.name, strategy.rank, strategy.world_size, strategy.towers) == ('horovod', 0, 1, 1)
    assert strategy.is_chief
    assert strategy.writes_checkpoints
    assert strategy.all_gather({'a': [1, None], 'ü': np.float64(2)}) == [{'a': [1, None], 'ü': np.float64(2)}]
    assert strategy.all_gather(b'') == [b'']
    assert strategy.all_sum([1.5, 2]) == [1.5, 2]
    assert strategy.all_mean(3.0, 2) == 1.5
    strategy.choose_source(lambda: (0, -1))
    assert strategy.is_source
    assert strategy.agree('path') == 'path'


@needs_horovod
@pytest.mark.parametrize(
    ('scaling', 'ranks', 'scale'), [('linear', 4, 4.0), ('sqrt', 4, 2.0), ('none', 4, 1.0), ('linear', 1, 1.0)]
)
def test_the_learning_rate_grows_with_the_ranks(
    module: Any, scaling: str, ranks: int, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = create_strategy(ParallelConfig(horovod=True, horovod_lr_scaling=scaling))
    monkeypatch.setattr(type(strategy), 'world_size', property(lambda _: ranks))
    assert strategy.learning_rate_scale == scale


@needs_horovod
def test_a_session_has_its_share_of_the_cores(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.hvd, 'local_size', lambda: 2)
    monkeypatch.setattr(os, 'sched_getaffinity', lambda _: set(range(8)), raising=False)
    for parallel, threads in (
        (ParallelConfig(horovod=True), (4, 4)),
        (ParallelConfig(horovod=True, inter_op_threads=1, intra_op_threads=7), (1, 7)),
    ):
        proto = tf.compat.v1.ConfigProto()
        create_strategy(parallel).configure_session(proto)
        assert (proto.inter_op_parallelism_threads, proto.intra_op_parallelism_threads) == threads


@needs_horovod
@pytest.mark.parametrize(
    ('gpus', 'own', 'local_rank', 'visible'),
    [(0, '', 3, ''), (4, '', 0, '0'), (4, '', 3, '3'), (4, '0,1,2,3', 3, '3'), (1, '2', 3, '0')],
)
def test_each_process_of_a_host_has_its_gpu(
    module: Any, gpus: int, own: str, local_rank: int, visible: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm, for one, may hide the other GPUs of the host from each process."""
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', own)
    monkeypatch.setattr(module, 'get_available_gpus', lambda: [f'/gpu:{number}' for number in range(gpus)])
    monkeypatch.setattr(module.hvd, 'local_rank', lambda: local_rank)
    strategy = create_strategy(ParallelConfig(horovod=True))
    proto = tf.compat.v1.ConfigProto()
    strategy.configure_session(proto)
    assert proto.gpu_options.visible_device_list == visible
    assert isinstance(strategy, HybridStrategy)
    assert strategy.devices == (('/gpu:0',) if gpus else ('/cpu:0',))


@needs_horovod
@pytest.mark.parametrize('nccl', [True, False])
def test_gradients_travel_from_gpu_to_gpu_where_nccl_is(
    module: Any, graph: tf.Graph, nccl: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other sums are of a number or two, and start and end on the CPU."""
    monkeypatch.setattr(module, 'get_available_gpus', lambda: ['/gpu:0'])
    monkeypatch.setattr(module.hvd, 'nccl_built', lambda: nccl)
    batches = tf.compat.v1.data.make_initializable_iterator(tf.data.Dataset.from_tensors([[1.0, 2.0]]))

    def tower(batch: tf.Tensor) -> TowerOutput:
        weights = tf.compat.v1.get_variable('weights', [2, 2])
        loss = tf.reduce_sum(tf.matmul(batch, weights))
        return TowerOutput(loss_sum=loss, count=tf.size(batch, tf.float32), bad_names=tf.zeros([0], tf.string))

    adam = partial(tf.compat.v1.train.AdamOptimizer, 0.01)
    create_strategy(ParallelConfig(horovod=True)).build(batches.get_next, tower, adam)
    sums = {op.name: op.device for op in graph.get_operations() if op.type == 'HorovodAllreduce'}
    assert len(sums) == 3
    for name, device in sums.items():
        assert device.endswith('GPU:0' if nccl and 'weights' in name else 'CPU:0'), name


@needs_horovod
def test_more_processes_than_gpus(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv('CUDA_VISIBLE_DEVICES', raising=False)
    monkeypatch.setattr(module, 'get_available_gpus', lambda: ['/gpu:0'])
    monkeypatch.setattr(module.hvd, 'local_rank', lambda: 1)
    with pytest.raises(FlagError, match='this is process 2 on this host, which has 1 GPUs'):
        create_strategy(ParallelConfig(horovod=True))
    assert create_strategy(ParallelConfig(horovod=True, cpu_towers=3)).towers == 3


@needs_horovod
def test_a_launcher_that_horovod_does_not_know(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built without MPI it takes each process that mpirun or srun started for the only one."""
    monkeypatch.setenv('SLURM_PROCID', '1')
    monkeypatch.setenv('SLURM_STEP_NUM_TASKS', '4')
    with pytest.raises(
        FlagError, match=r'4 processes were started \(SLURM_STEP_NUM_TASKS=4\), but Horovod counts 1.*horovodrun --gloo'
    ):
        create_strategy(ParallelConfig(horovod=True))
