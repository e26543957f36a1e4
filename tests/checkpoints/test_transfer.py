"""Trainings that begin with the weights of others, and several trainings in one folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deepspeech_training.checkpoints import RunState
from deepspeech_training.checkpoints.tensors import write_tensors
from deepspeech_training.config import CheckpointConfig
from deepspeech_training.errors import CheckpointError

from .model import Model, saved, trained


def write_checkpoint(folder: Path, prefix: str, step: int, values: dict[str, np.ndarray]) -> None:
    """Such as DeepSpeech leaves it: nothing beside the tensors."""
    folder.mkdir(exist_ok=True)
    write_tensors(str(folder / f'{prefix}-{step}'), values)
    name = {'train': 'checkpoint', 'best_dev': 'best_dev_checkpoint'}[prefix]
    (folder / name).write_text(f'model_checkpoint_path: "/elsewhere/{prefix}-{step}"\n')


def values_of(model: Model) -> dict[str, np.ndarray]:
    with model.session.graph.as_default():
        values: dict[str, np.ndarray] = model.session.run({v.op.name: v for v in model.variables})
    return values


@pytest.mark.parametrize(('dropped', 'new'), [(0, set()), (1, {'layer_6'}), (2, {'layer_6'}), (5, {'layer_6'})])
def test_dropped_layers_start_anew_with_their_moments(
    config: CheckpointConfig, tmp_path: Path, dropped: int, new: set[str]
) -> None:
    source = trained(config, value=3.0)
    for _ in range(2):
        source.session.run(source.train_op)
    saved(source, 2)
    transfer = replace(config, save_dir=str(tmp_path / 'new'), drop_source_layers=dropped)
    model = Model(transfer, value=7.0)
    restored = model.store.restore_for_training(model.session)
    assert restored is not None
    assert restored.is_source
    before, after = values_of(source), values_of(model)
    for name, value in after.items():
        layer = name.split('/')[0]
        if layer in new:
            np.testing.assert_array_equal(value, np.full(value.shape, 0.0 if 'Adam' in name else 7.0), err_msg=name)
        else:
            np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_another_alphabet_needs_another_output_layer(config: CheckpointConfig, tmp_path: Path) -> None:
    saved(trained(config, value=3.0), 2)
    transfer = replace(config, save_dir=str(tmp_path / 'new'))
    with pytest.raises(CheckpointError, match='alphabet of 3 characters'):
        trained(transfer, alphabet_size=5)
    assert trained(replace(transfer, drop_source_layers=1), alphabet_size=5).value() == 3.0


def test_a_run_that_began_with_other_weights_goes_on_from_its_own(config: CheckpointConfig, tmp_path: Path) -> None:
    saved(trained(config, value=3.0), 9)
    transfer = replace(config, save_dir=str(tmp_path / 'new'), drop_source_layers=1)
    first = trained(transfer, value=5.0)
    assert first.value() == 3.0
    first.session.run(first.weight.assign([4.0] * 4))
    saved(first, 2)
    second = Model(transfer, value=5.0)
    restored = second.store.restore_for_training(second.session)
    assert restored is not None
    assert (second.value(), restored.is_source) == (4.0, False)


def test_the_best_of_an_earlier_training_is_not_continued(config: CheckpointConfig) -> None:
    """A new training began in the same folder, and has no best model of its own yet."""
    earlier = trained(config, value=1.0)
    earlier.store.save_best(earlier.session, RunState(step=50, run='a'))
    earlier.store.wait()
    new = trained(replace(config, load_train='init'), value=2.0)
    new.store.save_last(new.session, RunState(step=3, run='b'))
    new.store.wait()
    assert trained(config).value() == 2.0


def test_a_new_training_in_the_folder_goes_on_though_the_earlier_one_had_more_steps(config: CheckpointConfig) -> None:
    earlier = trained(config, value=1.0)
    for step in (40, 50):
        earlier.store.save_last(earlier.session, RunState(step=step, run='a'))
    new = trained(replace(config, load_train='init'), value=2.0)
    new.store.save_best(new.session, RunState(step=2, run='b'))
    new.session.run(new.weight.assign([3.0] * 4))
    new.store.save_last(new.session, RunState(step=3, run='b'))
    new.store.wait()
    assert trained(config).value() == 3.0
    (Path(config.save_dir) / 'train-3.index').write_bytes(b'')
    assert trained(config).value() == 2.0  # its best one, rather than those of the earlier training
    (Path(config.save_dir) / 'best_dev-2.index').write_bytes(b'')
    assert trained(config).value() == 1.0


def test_checkpoints_of_other_trainings_are_not_deleted(config: CheckpointConfig) -> None:
    write_checkpoint(Path(config.save_dir), 'train', 1, {'layer_1/bias': np.zeros(4, np.float32)})
    new = trained(replace(config, load_train='init', max_to_keep=1), value=2.0)
    for step in (2, 3):
        new.store.save_last(new.session, RunState(step=step, run='b'))
    new.store.wait()
    assert {path.name for path in Path(config.save_dir).glob('*.index')} == {'train-1.index', 'train-3.index'}


def test_moments_in_the_format_of_cudnn_start_anew(config: CheckpointConfig, caplog: pytest.LogCaptureFixture) -> None:
    """DeepSpeech keeps the weights of CuDNN's LSTM by name, and Adam's moments for one opaque parameter."""
    values = {'layer_1/bias': np.full(4, 3.0, np.float32), 'layer_6/bias': np.full(4, 3.0, np.float32)}
    values |= {f'{name}/{slot}': value for name, value in values.items() for slot in ('Adam', 'Adam_1')}
    values |= {f'cudnn_lstm/opaque_kernel/{slot}': np.zeros(8, np.float32) for slot in ('Adam', 'Adam_1')}
    write_checkpoint(Path(config.save_dir), 'train', 5, values)
    assert trained(config).value() == 3.0
    assert "trained with CuDNN's LSTM" in caplog.text
    assert 'beta1_power' in caplog.text
