"""Training and testing with a feature cache: the same as without, bit by bit, in every strategy."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.checkpoints import LAST, find_checkpoint
from deepspeech_training.config import Config, ParallelConfig
from deepspeech_training.data import contents
from tests.helpers import run_training, transcriptions
from tests.toy import toy_config

STRATEGIES = [
    ParallelConfig(parallel='hybrid', cpu_towers=2),
    ParallelConfig(parallel='sync', cpu_towers=2),
    ParallelConfig(parallel='async', cpu_towers=1),
]


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audio files that were written just now are remembered."""
    monkeypatch.setattr(contents, 'SETTLED_SECONDS', 0.0)


@pytest.fixture(scope='module')
def base(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Everything that is random, and one thread."""
    tf.compat.v1.disable_v2_behavior()  # TensorFlow warns of that once, which is no warning of a test's
    config = toy_config(tmp_path_factory.mktemp('cached'), train=7, dev=2, test=3, batch_size=2, epochs=2)
    return replace(
        config,
        data=replace(config.data, shuffle_batches=True, shuffle_start=0),
        model=replace(config.model, dropout=(0.3,) * 6),
    )


def trained(
    config: Config, folder: Path, cache: Path | None, *, test: bool
) -> tuple[dict[str, np.ndarray], list[object]]:
    """All variables at the end, and what the test made of them."""
    name = str(folder)
    config = replace(
        config,
        data=replace(config.data, feature_cache=str(cache or '')),
        checkpoints=replace(config.checkpoints, load_dir=name, save_dir=name),
        parallel=replace(config.parallel, intra_op_threads=1, inter_op_threads=1),
        report=replace(config.report, summary_dir=os.path.join(name, 'curves')),
    )
    data_sets, alphabet = run_training(config)
    path = find_checkpoint(name, LAST)
    assert path is not None
    reader = tf.train.load_checkpoint(path)
    values = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    return values, list(transcriptions(config, data_sets, alphabet)) if test else []


@pytest.mark.parametrize(
    ('parallel', 'backend'),
    [*((parallel, 'tensorflow') for parallel in STRATEGIES), (STRATEGIES[0], 'python_speech_features')],
    ids=lambda value: value if isinstance(value, str) else value.parallel,
)
def test_results_are_the_same(
    base: Config, tmp_path: Path, parallel: ParallelConfig, backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The first epoch fills the cache, the second one reads it."""
    config = replace(base, parallel=parallel, features=replace(base.features, backend=backend))
    test = parallel.parallel == 'hybrid'
    expected, expected_report = trained(config, tmp_path / 'without', None, test=test)
    found, report = trained(config, tmp_path / 'with', tmp_path / 'cache', test=test)
    assert report == expected_report
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
    assert list(tmp_path.glob('cache/*/*.features'))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
