from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import tensorflow as tf

from deepspeech_training.checkpoints import BEST, LAST, Geometry, RunState, find_checkpoint
from deepspeech_training.config import CheckpointConfig
from deepspeech_training.errors import CheckpointError

from .model import Model, saved, trained

tfv1 = tf.compat.v1


def test_training_goes_on_with_all_variables(config: CheckpointConfig) -> None:
    first = trained(config)
    for _ in range(3):
        first.session.run(first.train_op)
    saved(first, 3)
    second = Model(config, value=9.0)
    restored = second.store.restore_for_training(second.session)
    assert restored is not None
    assert restored.path == find_checkpoint(config.load_dir, LAST)
    assert repr(restored.state) == repr(RunState(step=3))  # losses are NaN, which equals nothing
    for model in (first, second):
        model.session.run(model.train_op)
    assert second.value() == first.value()  # Adam's slots and powers came along, too
    assert second.session.run('global_step:0') == 4


@pytest.mark.parametrize(('load', 'expected'), [('auto', 1.0), ('last', 1.0), ('best', 2.0), ('init', 5.0)])
def test_what_training_starts_from(config: CheckpointConfig, load: str, expected: float) -> None:
    model = trained(config, value=1.0)
    saved(model, 10)
    other = trained(replace(config, load_train='init'), value=2.0)
    saved(other, 5, best=True)
    resumed = trained(replace(config, load_train=load), value=5.0)
    assert resumed.value() == expected


@pytest.mark.parametrize(('load', 'expected'), [('auto', 2.0), ('last', 1.0), ('best', 2.0)])
def test_what_is_evaluated(config: CheckpointConfig, load: str, expected: float) -> None:
    model = trained(config, value=1.0)
    saved(model, 10)
    other = trained(replace(config, load_train='init'), value=2.0)
    saved(other, 5, best=True)
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
    saved(model, 1)
    moved = str(tmp_path / 'elsewhere')
    shutil.move(config.save_dir, moved)
    assert trained(replace(config, load_dir=moved, save_dir=moved)).value() == 3.0


def test_absolute_names_of_deepspeech_are_found_after_a_move(config: CheckpointConfig) -> None:
    model = trained(config, value=3.0)
    saved(model, 1)
    state = Path(config.save_dir) / 'checkpoint'
    state.write_text('model_checkpoint_path: "/home/somebody/else/train-1"\n')
    assert trained(config).value() == 3.0


def test_max_to_keep_counts_over_runs_and_spares_the_best(config: CheckpointConfig) -> None:
    config = replace(config, max_to_keep=2)
    for run in range(3):
        model = trained(config)
        saved(model, run)
        if run == 0:
            saved(model, run, best=True)
    names = sorted(path.name for path in Path(config.save_dir).glob('*.index'))
    assert names == ['best_dev-0.index', 'train-1.index', 'train-2.index']


def test_plateau_goes_back_to_the_best(config: CheckpointConfig) -> None:
    model = trained(config, value=0.0)
    assert model.store.reload_best(model.session, keep=()) is None
    saved(model, 0, best=True)
    model.session.run(model.train_op)
    assert model.value() != 0.0
    model.store.reload_best(model.session, keep=())
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
    saved(model, 1)
    other = Model(config, training=training, **sizes)  # type: ignore[arg-type]
    restore: Callable[[tf.compat.v1.Session], object] = (
        other.store.restore_for_training if training else other.store.restore_for_evaluation
    )
    with pytest.raises(CheckpointError, match=message) as caught:
        restore(other.session)
    assert 'train-1' in str(caught.value)


def test_layer_norm_that_the_flags_do_not_ask_for(config: CheckpointConfig) -> None:
    model = trained(config, layer_norm=True)
    saved(model, 1)
    with pytest.raises(CheckpointError, match='trained with --layer_norm'):
        trained(config)


def test_a_checkpoint_without_optimizer_is_continued_and_says_so(
    config: CheckpointConfig, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model(config, training=False, value=3.0)
    model.session.run([v.initializer for v in [model.weight]])
    with model.session.graph.as_default():
        model.session.run(tfv1.global_variables_initializer())
    saved(model, 1)
    resumed = trained(config)
    assert resumed.value() == 3.0
    assert float(resumed.session.run(resumed.learning_rate)) == 0.25
    assert 'layer_1/bias/Adam' in caplog.text
    assert 'learning_rate' in caplog.text


def test_the_learning_rate_is_the_checkpoints_unless_forced(config: CheckpointConfig) -> None:
    model = trained(config)
    model.session.run(model.learning_rate.assign(0.125))
    saved(model, 1)
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


@pytest.mark.parametrize('damage', [_truncate_data, _truncate_index, _remove_index, _remove_data])
def test_a_damaged_checkpoint_is_named(config: CheckpointConfig, damage: Callable[[Path], None]) -> None:
    model = trained(config)
    saved(model, 1)
    damage(Path(config.save_dir))
    with pytest.raises(CheckpointError, match='train-1'):
        trained(config)


def test_a_place_that_cannot_be_written_is_named(config: CheckpointConfig, tmp_path: Path) -> None:
    (tmp_path / 'file').write_text('')
    target = os.path.join(str(tmp_path / 'file'), 'c')
    model = trained(replace(config, save_dir=target))
    with pytest.raises(CheckpointError, match='file/c/train-1'):
        saved(model, 1)


def test_no_directory_means_no_checkpoint(config: CheckpointConfig, tmp_path: Path) -> None:
    model = trained(replace(config, load_dir='', save_dir=''))
    assert saved(model, 1) == ''
    assert saved(model, 1, best=True) == ''
    assert model.store.reload_best(model.session, keep=()) is None
    assert list(tmp_path.iterdir()) == []


def test_kinds_do_not_mix(config: CheckpointConfig) -> None:
    model = trained(config)
    saved(model, 4, best=True)
    assert find_checkpoint(config.save_dir, LAST) is None
    assert str(find_checkpoint(config.save_dir, BEST)).endswith('best_dev-4')


@pytest.mark.parametrize('damage', [_truncate_data, _truncate_index, _remove_index, _remove_data])
def test_the_one_before_a_damaged_checkpoint_is_used(
    config: CheckpointConfig, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    model = trained(config, value=3.0)
    saved(model, 0)
    model.session.run(model.train_op)
    saved(model, 1)
    damage(Path(config.save_dir))
    assert trained(config).value() == 3.0
    assert 'train-1' in caplog.text
    assert 'using' in caplog.text
    assert 'train-0 instead' in caplog.text


@pytest.mark.parametrize('content', [b'', b'\xff\xfe\x00nonsense', b'all_model_checkpoint_paths: "train-1"\n'])
def test_a_damaged_state_file(config: CheckpointConfig, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    model = trained(config, value=3.0)
    saved(model, 1)
    (Path(config.save_dir) / 'checkpoint').write_bytes(content)
    assert trained(config, value=9.0).value() == 3.0
    assert caplog.text.count('checkpoint: damaged') == 1


def test_a_second_checkpoint_of_a_step_replaces_none(config: CheckpointConfig) -> None:
    model = trained(config, value=3.0)
    saved(model, 4)
    before = {path.name: path.read_bytes() for path in Path(config.save_dir).glob('train-4.*')}
    model.session.run(model.weight.assign([5.0] * 4))
    saved(model, 4)
    assert {name: (Path(config.save_dir) / name).read_bytes() for name in before} == before
    assert trained(config).value() == 5.0


def test_what_interrupted_writing_left_is_removed(config: CheckpointConfig) -> None:
    model = trained(config, value=3.0)
    saved(model, 1)
    folder = Path(config.save_dir)
    old = {path.name for path in folder.iterdir()}
    for name in ('.writing-999999999-train-2.index', '.writing-999999999-checkpoint', 'train-2.index'):
        (folder / name).write_bytes(b'half')
    shutil.copy(folder / 'train-1.json', folder / 'train-2.json')  # it was given its name first
    assert trained(config).value() == 3.0
    assert {path.name for path in folder.iterdir()} == old


def test_checkpoints_of_others_stay(config: CheckpointConfig) -> None:
    """Those of an earlier training, of DeepSpeech, and what somebody has copied here; whenever that was."""
    model = trained(config, value=3.0)
    saved(model, 1)
    folder = Path(config.save_dir)
    state = json.loads((folder / 'train-1.json').read_text())
    state['run']['run'] = 'another'
    (folder / 'train-7.json').write_text(json.dumps(state))
    for name in ('train-7.index', 'train-9.index', 'train-9.data-00000-of-00001', 'best_dev-9.index'):
        (folder / name).write_bytes(b'of others')
        os.utime(folder / name, (4e9, 4e9))
    there = {path.name for path in folder.iterdir()}
    assert trained(config).value() == 3.0
    assert {path.name for path in folder.iterdir()} == there


def test_other_features_or_characters_are_named_before_anything_is_read(config: CheckpointConfig) -> None:
    """Of the same sizes: nothing but the description beside the checkpoint tells."""
    labels = ('a', 'b', 'c')
    features = {'feature_win_len': 32, 'feature_backend': 'tensorflow'}
    geometry = Geometry(4, 3, 'some/alphabet.txt', labels, features)
    model = trained(config, geometry=geometry)
    saved(model, 1)
    assert trained(config, geometry=geometry).value() == 0.0
    other_order = replace(geometry, labels=('a', 'c', 'b'))
    with pytest.raises(CheckpointError, match=r"train-1.*some/alphabet\.txt: number 2 is 'b' there and 'c' here"):
        trained(config, geometry=other_order)
    other_features = replace(geometry, features={'feature_win_len': 20, 'feature_backend': 'tensorflow'})
    with pytest.raises(CheckpointError, match='--feature_win_len=32, and here it is 20'):
        trained(config, geometry=other_features)
