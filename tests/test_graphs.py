"""The type in which a run computes its products, and trainings with half precision in this process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import tensorflow as tf

from deepspeech_training.checkpoints import LAST, find_checkpoint
from deepspeech_training.config import Config, ModelConfig, ParallelConfig
from deepspeech_training.errors import FlagError
from deepspeech_training.graphs import with_compute_type
from deepspeech_training.parallel.hybrid import HybridStrategy
from tests.helpers import run_training, scalars
from tests.toy import toy_config

OLD_GPU = [(7, 0)]
NEW_GPU = [(9, 0)]


def compute_type(model: ModelConfig, parallel: ParallelConfig | None = None) -> str:
    return with_compute_type(Config(model=model, parallel=parallel or ParallelConfig())).model.compute_type


def pretend_gpus(monkeypatch: pytest.MonkeyPatch, gpus: list[tuple[int, int]]) -> None:
    """There is no GPU to test with. What is computed in float16 then is computed on the CPU."""
    monkeypatch.setattr('deepspeech_training.graphs.compute_capabilities', lambda: gpus)


def test_on_a_cpu() -> None:
    assert compute_type(ModelConfig()) == 'float32'
    assert compute_type(ModelConfig(compute_type='auto')) == 'bfloat16'
    with pytest.raises(FlagError, match='needs a GPU'):
        compute_type(ModelConfig(compute_type='float16'))


def test_on_gpus_that_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    auto = ModelConfig(compute_type='auto')
    pretend_gpus(monkeypatch, NEW_GPU)
    assert compute_type(auto) == 'bfloat16'
    pretend_gpus(monkeypatch, OLD_GPU)
    assert compute_type(auto) == 'float16'
    assert compute_type(auto, ParallelConfig(cpu_towers=2)) == 'bfloat16'


def test_processes_with_different_gpus_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise some of them would send gradients times a scale, and some without."""

    class BesideAnOldGpu(HybridStrategy):
        def all_gather(self, value):  # type: ignore[no-untyped-def]
            return [value, 'float16']

    pretend_gpus(monkeypatch, NEW_GPU)
    config = Config(model=ModelConfig(compute_type='auto'))
    assert with_compute_type(config, BesideAnOldGpu(config.parallel)).model.compute_type == 'float16'


def test_what_is_said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level('INFO', logger='deepspeech_training'):
        compute_type(ModelConfig())
        assert caplog.text == ''
        compute_type(ModelConfig(compute_type='auto', lstm='hoisted'))
        compute_type(ModelConfig(compute_type='auto', lstm='block'))
    assert [record.message for record in caplog.records] == [
        'Mixed precision: products in bfloat16',
        'Mixed precision: products in bfloat16; the LSTM (block) in float32',
    ]


def test_training_finds_its_loss_scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It starts much too large. The updates that overflow are skipped, but they are no bad steps."""
    pretend_gpus(monkeypatch, OLD_GPU)
    monkeypatch.setattr('deepspeech_training.parallel.loss_scale.INITIAL', 2.0**30)
    config = toy_config(tmp_path, train=8, batch_size=1, epochs=6, towers=0)
    config = replace(
        config,
        model=replace(config.model, compute_type='auto'),
        schedule=replace(config.schedule, max_bad_steps=2),
        optimizer=replace(config.optimizer, learning_rate=0.003),
    )
    with caplog.at_level('INFO', logger='deepspeech_training'):
        run_training(config)
    folder = Path(config.report.summary_dir) / 'train'
    scales = list(scalars(folder, 'loss_scale').values())
    skipped = 6 * 8 - len(scales)
    assert skipped > 2
    assert scales == sorted(scales, reverse=True)
    assert scales[-1] == 2.0 ** (30 - skipped)
    told = [
        record.message for record in caplog.records if 'updates were skipped: gradients overflowed' in record.message
    ]
    assert sum(int(line.split()[0]) for line in told) == skipped
    losses = list(scalars(folder, 'epoch_loss').values())
    assert losses[-1] < losses[0] / 2
    path = find_checkpoint(config.checkpoints.save_dir, LAST)
    assert path is not None
    saved = tf.train.load_checkpoint(path)
    assert saved.get_tensor('global_step') == len(scales)
    assert not any('loss_scale' in name for name in saved.get_variable_to_shape_map())

    run_training(replace(config, schedule=replace(config.schedule, epochs=7)))
    resumed = list(scalars(folder, 'loss_scale').values())[len(scales) :]
    assert resumed[0] == scales[-1]
