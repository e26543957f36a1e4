"""Trainings with augmentation: the same in one piece and in several, with any threads, and from a cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.checkpoints import LAST, find_checkpoint
from deepspeech_training.config import Config
from deepspeech_training.data import contents
from deepspeech_training.data.augmentation.augmenter import Augmenter
from deepspeech_training.data.augmentation.moments import moments_of
from deepspeech_training.data.checks import check_data
from deepspeech_training.data.order import frames_of
from deepspeech_training.data.pipeline import InputPipeline
from deepspeech_training.epochs import TrainingLoop
from deepspeech_training.errors import TrainingInterruptedError
from deepspeech_training.model.features import compute_mfccs
from deepspeech_training.text.alphabet import Alphabet
from tests.helpers import run_training
from tests.toy import toy_config

AUGMENT = (
    'volume[p=0.7,dbfs=-3:-20~2]',
    'add[p=0.5,domain=signal,stddev=0.01]',
    'tempo[p=0.5,factor=1.2:0.8~0.1]',
    'frequency_mask[p=0.7,n=1:3,size=5]',
    'add[p=0.5,stddev=0.5]',
)


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audio files that were written just now are remembered."""
    monkeypatch.setattr(contents, 'SETTLED_SECONDS', 0.0)


def config_of(folder: Path, **data: Any) -> Config:
    config = toy_config(folder, train=7, dev=2, batch_size=2, epochs=3)
    return replace(
        config,
        data=replace(config.data, augment=AUGMENT, shuffle_batches=True, shuffle_start=0, **data),
        parallel=replace(config.parallel, intra_op_threads=1, inter_op_threads=1),
    )


def variables(config: Config) -> dict[str, np.ndarray]:
    path = find_checkpoint(config.checkpoints.save_dir, LAST)
    assert path is not None
    reader = tf.train.load_checkpoint(path)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def stopped_after(config: Config, steps: int) -> None:
    after_step = TrainingLoop._after_training_step

    def stop(loop: TrainingLoop, *args: Any) -> None:
        if loop._state.step == steps:
            loop._interrupts.stop = 15
        after_step(loop, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingLoop, '_after_training_step', stop)
        with pytest.raises(TrainingInterruptedError):
            run_training(config)


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


@pytest.fixture(scope='module')
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    config = config_of(tmp_path_factory.mktemp('whole'))
    run_training(config)
    return variables(config)


@pytest.mark.parametrize('steps', [2, 4, 7])
def test_a_run_that_was_stopped_goes_on_as_it_would_have(
    whole: dict[str, np.ndarray], tmp_path: Path, steps: int
) -> None:
    config = config_of(tmp_path)
    stopped_after(config, steps)
    run_training(config)
    assert_same(variables(config), whole)


def test_augmentation_makes_a_difference(whole: dict[str, np.ndarray], tmp_path: Path) -> None:
    config = config_of(tmp_path)
    config = replace(config, data=replace(config.data, augment=()))
    run_training(config)
    assert any(not np.array_equal(value, whole[name]) for name, value in variables(config).items())


class Epochs:
    """The batches of whole epochs of a pipeline, augmented or not."""

    def __init__(self, config: Config) -> None:
        tf.compat.v1.disable_v2_behavior()
        self.config = config
        alphabet = Alphabet.from_file(config.data.alphabet_config_path)
        self.samples = check_data(
            config.data, config.features, alphabet, save_dir=config.checkpoints.save_dir, show_progressbar=False
        ).train
        in_graph = config.features.backend == 'tensorflow'
        with tf.Graph().as_default() as graph:
            self.pipeline = InputPipeline(
                self.samples,
                alphabet,
                config.features,
                config.data,
                towers=1,
                mfccs=partial(compute_mfccs, features=config.features) if in_graph else None,
                augmenter=Augmenter(config.data.augment, config.features, config.random_seed),
            )
            self.batch = self.pipeline.next_batch()
        self.session = tf.compat.v1.Session(graph=graph)

    def features(self, epoch: int, order: Sequence[int], batch_size: int = 1) -> dict[int, np.ndarray]:
        """By position; of an epoch below 0 without augmentation."""
        data, seed = self.config.data, self.config.random_seed
        moments = moments_of(epoch, 3, frames_of(self.samples), data, seed) if epoch >= 0 else None
        self.pipeline.start(self.session, np.asarray(order, np.int32), batch_size, augment=moments)
        found: dict[int, np.ndarray] = {}
        while True:
            try:
                batch = self.session.run(self.batch)
            except tf.errors.OutOfRangeError:
                return found
            for number, position in enumerate(batch.indices):
                found[int(position)] = batch.features[number, : batch.feature_lengths[number]]


def same(ours: dict[int, np.ndarray], theirs: dict[int, np.ndarray]) -> list[int]:
    return [position for position in ours if np.array_equal(ours[position], theirs[position])]


@pytest.mark.parametrize('backend', ['tensorflow', 'python_speech_features'])
def test_features_follow_from_epoch_and_sample_alone(tmp_path: Path, backend: str) -> None:
    config = config_of(tmp_path)
    epochs = Epochs(replace(config, features=replace(config.features, backend=backend)))
    plain = epochs.features(-1, range(7))
    first = epochs.features(0, range(7))
    second = epochs.features(1, range(7))
    assert len(same(first, plain)) < 3
    assert len(same(first, second)) < 3, 'another epoch, other random numbers'
    again = epochs.features(0, [6, 2, 4, 0, 1, 3, 5], batch_size=3)
    assert same(again, first) == list(again)
    part = epochs.features(1, [5, 1])  # as another rank has it, or a run that goes on
    assert same(part, second) == [5, 1]
    assert same(epochs.features(-1, range(7)), plain) == list(range(7)), 'validation behind an augmented epoch'


def test_a_cache_keeps_what_was_augmented(tmp_path: Path) -> None:
    config = config_of(tmp_path, feature_cache=str(tmp_path / 'cache'), cache_for_epochs=2)
    expected = Epochs(replace(config, data=replace(config.data, feature_cache='')))
    filling, reading = Epochs(config), Epochs(config)
    plain, first = expected.features(-1, range(7)), expected.features(0, range(7))
    assert same(filling.features(0, range(7)), first) == list(range(7))
    assert same(filling.features(-1, range(7)), plain) == list(range(7)), 'dev files are not augmented'
    for epoch in (0, 1):
        assert same(reading.features(epoch, range(7)), first) == list(range(7))
    augmented = reading.pipeline._loader._cache_of(0)
    assert augmented is not None
    assert (augmented.found, augmented.stored) == (14, 0)
    assert same(reading.features(2, range(7)), expected.features(2, range(7))) == list(range(7))
    assert not Path(augmented.path).exists(), 'what no epoch needs any more is removed'
    assert same(reading.features(-1, range(7)), plain) == list(range(7))
    assert reading.pipeline.cache is not None
    assert reading.pipeline.cache.found == 7


def test_a_cached_training_that_was_stopped(tmp_path: Path) -> None:
    """Also when the cache is gone meanwhile."""
    found = []
    for name in ('whole', 'stopped'):
        folder = tmp_path / name
        config = config_of(folder, feature_cache=str(folder / 'cache'), cache_for_epochs=2)
        if name == 'stopped':
            stopped_after(config, 6)
            (folder / 'cache').rename(folder / 'gone')
        run_training(config)
        found.append(variables(config))
    assert_same(found[1], found[0])
