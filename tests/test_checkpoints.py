from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.checkpoints import BEST, LAST, CheckpointStore, Geometry, find_checkpoint
from deepspeech_training.config import CheckpointConfig
from deepspeech_training.errors import CheckpointError

tfv1 = tf.compat.v1


class Model:
    """A few of the model's variables, with an optimizer, a learning rate and a session of their own."""

    def __init__(
        self,
        config: CheckpointConfig,
        *,
        n_hidden: int = 4,
        alphabet_size: int = 3,
        layer_norm: bool = False,
        training: bool = True,
        value: float = 0.0,
    ) -> None:
        tfv1.disable_v2_behavior()
        with tf.Graph().as_default() as graph:
            start = tfv1.constant_initializer(value)
            shapes = {'layer_1/bias': n_hidden, 'layer_6/bias': alphabet_size + 1}
            if layer_norm:
                shapes['layer_1/LayerNorm/beta'] = n_hidden
            weights = [tfv1.get_variable(n, [s], initializer=start, use_resource=True) for n, s in shapes.items()]
            if training:
                self.learning_rate = tfv1.get_variable(
                    'learning_rate', initializer=0.25, trainable=False, use_resource=True
                )
                loss = tf.add_n([tf.reduce_sum(tf.square(w - 1)) for w in weights])
                step = tfv1.train.get_or_create_global_step()
                self.train_op = tfv1.train.AdamOptimizer(self.learning_rate).minimize(loss, global_step=step)
            self.weight = weights[0]
            self.store = CheckpointStore(config, Geometry(n_hidden, alphabet_size, 'some/alphabet.txt'))
            self.session = tfv1.Session(graph=graph)

    def value(self) -> float:
        values = self.session.run(self.weight)
        assert np.ptp(values) == 0
        return float(values[0])


@pytest.fixture
def config(tmp_path: Path) -> CheckpointConfig:
    return CheckpointConfig(load_dir=str(tmp_path / 'c'), save_dir=str(tmp_path / 'c'))


def trained(config: CheckpointConfig, value: float = 0.0, **sizes: int | bool) -> Model:
    model = Model(config, value=value, **sizes)  # type: ignore[arg-type]
    model.store.restore_for_training(model.session)
    return model


def test_training_goes_on_with_all_variables(config: CheckpointConfig) -> None:
    first = trained(config)
    for _ in range(3):
        first.session.run(first.train_op)
    first.store.save_last(first.session, 3)
    second = Model(config, value=9.0)
    assert second.store.restore_for_training(second.session) == find_checkpoint(config.load_dir, LAST)
    for model in (first, second):
        model.session.run(model.train_op)
    assert second.value() == first.value()  # Adam's slots and powers came along, too
    assert second.session.run('global_step:0') == 4


@pytest.mark.parametrize(('load', 'expected'), [('auto', 1.0), ('last', 1.0), ('best', 2.0), ('init', 5.0)])
def test_what_training_starts_from(config: CheckpointConfig, load: str, expected: float) -> None:
    model = trained(config, value=1.0)
    model.store.save_last(model.session, 10)
    other = trained(replace(config, load_train='init'), value=2.0)
    other.store.save_best(other.session, 5, 0.5)
    resumed = trained(replace(config, load_train=load), value=5.0)
    assert resumed.value() == expected


@pytest.mark.parametrize(('load', 'expected'), [('auto', 2.0), ('last', 1.0), ('best', 2.0)])
def test_what_is_evaluated(config: CheckpointConfig, load: str, expected: float) -> None:
    model = trained(config, value=1.0)
    model.store.save_last(model.session, 10)
    other = trained(replace(config, load_train='init'), value=2.0)
    other.store.save_best(other.session, 5, 0.5)
    evaluated = Model(replace(config, load_evaluate=load), training=False)
    evaluated.store.restore_for_evaluation(evaluated.session)
    assert evaluated.value() == expected


@pytest.mark.parametrize('load', ['last', 'best'])
def test_a_checkpoint_that_was_asked_for_and_is_missing(config: CheckpointConfig, load: str) -> None:
    with pytest.raises(CheckpointError, match=f'no {load} checkpoint in {config.load_dir}'):
        trained(replace(config, load_train=load))


def test_evaluation_without_a_checkpoint_says_what_to_give(config: CheckpointConfig) -> None:
    model = Model(config, training=False)
    with pytest.raises(CheckpointError, match='--checkpoint_dir'):
        model.store.restore_for_evaluation(model.session)


def test_a_moved_directory_needs_no_edit(config: CheckpointConfig, tmp_path: Path) -> None:
    model = trained(config, value=3.0)
    model.store.save_last(model.session, 1)
    moved = str(tmp_path / 'elsewhere')
    shutil.move(config.save_dir, moved)
    assert trained(replace(config, load_dir=moved, save_dir=moved)).value() == 3.0


def test_absolute_names_of_deepspeech_are_found_after_a_move(config: CheckpointConfig) -> None:
    model = trained(config, value=3.0)
    model.store.save_last(model.session, 1)
    state = Path(config.save_dir) / 'checkpoint'
    state.write_text('model_checkpoint_path: "/home/somebody/else/train-1"\n')
    assert trained(config).value() == 3.0


def test_the_best_loss_is_remembered_for_the_next_run(config: CheckpointConfig) -> None:
    model = trained(config)
    assert model.store.best_loss() == math.inf
    model.store.save_best(model.session, 5, 1.5)
    assert trained(config).store.best_loss() == 1.5
    assert trained(replace(config, load_train='init')).store.best_loss() == math.inf


def test_max_to_keep_counts_over_runs_and_spares_the_best(config: CheckpointConfig) -> None:
    config = replace(config, max_to_keep=2)
    for run in range(3):
        model = trained(config)
        model.store.save_last(model.session, run)
        if run == 0:
            model.store.save_best(model.session, run, 1.0)
    names = sorted(path.name for path in Path(config.save_dir).glob('*.index'))
    assert names == ['best_dev-0.index', 'train-1.index', 'train-2.index']


def test_plateau_goes_back_to_the_best(config: CheckpointConfig) -> None:
    model = trained(config, value=0.0)
    assert model.store.reload_best(model.session) is None
    model.store.save_best(model.session, 0, 1.0)
    model.session.run(model.train_op)
    assert model.value() != 0.0
    model.store.reload_best(model.session)
    assert model.value() == 0.0


@pytest.mark.parametrize(
    ('sizes', 'message'),
    [
        ({'n_hidden': 7}, r'n_hidden 4, but --n_hidden is 7'),
        ({'alphabet_size': 5}, r'alphabet of 3 characters, but some/alphabet\.txt has 5'),
        ({'n_hidden': 7, 'alphabet_size': 5}, r'n_hidden 4.*alphabet of 3'),
        ({'layer_norm': True}, r'trained without --layer_norm'),
    ],
)
@pytest.mark.parametrize('training', [True, False])
def test_other_sizes_are_named(
    config: CheckpointConfig, sizes: dict[str, int | bool], message: str, training: bool
) -> None:
    model = trained(config)
    model.store.save_last(model.session, 1)
    other = Model(config, training=training, **sizes)  # type: ignore[arg-type]
    restore: Callable[[tf.compat.v1.Session], str | None] = (
        other.store.restore_for_training if training else other.store.restore_for_evaluation
    )
    with pytest.raises(CheckpointError, match=message) as caught:
        restore(other.session)
    assert 'train-1' in str(caught.value)


def test_layer_norm_that_the_flags_do_not_ask_for(config: CheckpointConfig) -> None:
    model = trained(config, layer_norm=True)
    model.store.save_last(model.session, 1)
    with pytest.raises(CheckpointError, match='trained with --layer_norm'):
        trained(config)


def test_a_checkpoint_without_optimizer_is_continued_and_says_so(
    config: CheckpointConfig, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model(config, training=False, value=3.0)
    model.session.run([v.initializer for v in [model.weight]])
    with model.session.graph.as_default():
        model.session.run(tfv1.global_variables_initializer())
    model.store.save_last(model.session, 1)
    resumed = trained(config)
    assert resumed.value() == 3.0
    assert float(resumed.session.run(resumed.learning_rate)) == 0.25
    assert 'layer_1/bias/Adam' in caplog.text
    assert 'learning_rate' in caplog.text


def test_the_learning_rate_is_the_checkpoints_unless_forced(config: CheckpointConfig) -> None:
    model = trained(config)
    model.session.run(model.learning_rate.assign(0.125))
    model.store.save_last(model.session, 1)
    kept = trained(config)
    forced = trained(replace(config, force_initialize_learning_rate=True))
    assert [float(m.session.run(m.learning_rate)) for m in (kept, forced)] == [0.125, 0.25]


def _truncate_data(folder: Path) -> None:
    path = next(folder.glob('train-1.data*'))
    path.write_bytes(path.read_bytes()[:10])


def _truncate_index(folder: Path) -> None:
    path = folder / 'train-1.index'
    path.write_bytes(path.read_bytes()[:10])


def _remove_index(folder: Path) -> None:
    (folder / 'train-1.index').unlink()


def _remove_data(folder: Path) -> None:
    next(folder.glob('train-1.data*')).unlink()


def _spoil_state(folder: Path) -> None:
    (folder / 'checkpoint').write_bytes(b'\xff\xfe\x00nonsense')


@pytest.mark.parametrize('damage', [_truncate_data, _truncate_index, _remove_index, _remove_data, _spoil_state])
def test_a_damaged_checkpoint_is_named(config: CheckpointConfig, damage: Callable[[Path], None]) -> None:
    model = trained(config)
    model.store.save_last(model.session, 1)
    damage(Path(config.save_dir))
    with pytest.raises(CheckpointError, match=r'train-1|checkpoint: damaged'):
        trained(config)


def test_a_place_that_cannot_be_written_is_named(config: CheckpointConfig, tmp_path: Path) -> None:
    (tmp_path / 'file').write_text('')
    target = os.path.join(str(tmp_path / 'file'), 'c')
    model = trained(replace(config, save_dir=target))
    with pytest.raises(CheckpointError, match='file/c/train-1'):
        model.store.save_last(model.session, 1)


def test_no_directory_means_no_checkpoint(config: CheckpointConfig, tmp_path: Path) -> None:
    model = trained(replace(config, load_dir='', save_dir=''))
    assert model.store.save_last(model.session, 1) == ''
    assert model.store.save_best(model.session, 1, 1.0) == ''
    assert model.store.reload_best(model.session) is None
    assert list(tmp_path.iterdir()) == []


def test_kinds_do_not_mix(config: CheckpointConfig) -> None:
    model = trained(config)
    model.store.save_best(model.session, 4, 1.0)
    assert find_checkpoint(config.save_dir, LAST) is None
    assert str(find_checkpoint(config.save_dir, BEST)).endswith('best_dev-4')
