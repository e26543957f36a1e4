"""Training runs in this process, on a toy language and with tiny models."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.checkpoints import BEST, LAST, find_checkpoint
from deepspeech_training.config import Config, ParallelConfig, ScheduleConfig
from deepspeech_training.data.checks import DataSets, check_data
from deepspeech_training.errors import DataError, TrainingDivergedError
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.train import train
from tests.helpers import events, run_training, scalars
from tests.toy import impossible, toy_config


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What data checks remember without a checkpoint directory stays out of the user's cache."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))


def variables(config: Config) -> dict[str, np.ndarray]:
    path = find_checkpoint(config.checkpoints.save_dir, LAST)
    assert path is not None
    reader = tf.train.load_checkpoint(path)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def files_in(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def train_with(config: Config, spoil: int) -> None:
    """Trains with the first `spoil` samples, as an epoch takes them, spoiled."""
    tf.compat.v1.disable_v2_behavior()
    alphabet = Alphabet.from_file(config.data.alphabet_config_path)
    sets = check_data(config.data, config.features, alphabet, save_dir='', show_progressbar=False)
    rows = [impossible(s) if i < spoil else s for i, s in enumerate(sets.train)]
    train(config, DataSets(train=rows, dev=sets.dev, test={}, metrics={}), alphabet)


@pytest.mark.parametrize('count', [1, 5, 7])
def test_towers_train_like_one_device_with_the_whole_batch(tmp_path: Path, count: int) -> None:
    """Three towers of batch 2 equal one of batch 6, and no sample is lost, whatever their number."""
    results, losses = [], []
    for towers, batch_size in ((1, 6), (3, 2)):
        config = toy_config(tmp_path / str(towers), train=count, batch_size=batch_size, towers=towers, epochs=2)
        run_training(config)
        results.append(variables(config))
        losses.append(scalars(Path(config.report.summary_dir) / 'train', 'epoch_loss'))
    steps = 2 * math.ceil(count / 6)
    assert [int(r['global_step']) for r in results] == [steps, steps]
    assert list(losses[0].values()) == pytest.approx(list(losses[1].values()), rel=1e-5)
    for name, one in results[0].items():
        np.testing.assert_allclose(results[1][name], one, atol=2e-5, err_msg=name)


def test_a_run_repeats_itself_from_its_seed(tmp_path: Path) -> None:
    results = []
    for name, seed in (('a', 1), ('b', 1), ('c', 2)):
        config = toy_config(tmp_path / name, train=6, dev=2, epochs=2, towers=2, batch_size=1)
        config = replace(
            config,
            random_seed=seed,
            data=replace(config.data, shuffle_batches=True, shuffle_start=0),
            model=replace(config.model, dropout=(0.3,) * 6),
            parallel=replace(config.parallel, intra_op_threads=1),
        )
        run_training(config)
        results.append(variables(config))
    np.testing.assert_array_equal(results[0]['layer_5/weights'], results[1]['layer_5/weights'])
    assert not np.array_equal(results[0]['layer_5/weights'], results[2]['layer_5/weights'])


def test_a_tiny_model_learns_the_toy_language_and_tensorboard_shows_it(tmp_path: Path) -> None:
    config = toy_config(tmp_path, train=12, dev=4, batch_size=4, epochs=40, n_hidden=32)
    config = replace(
        config,
        optimizer=replace(config.optimizer, learning_rate=0.005),
        report=replace(config.report, summary_steps=10),
    )
    run_training(config)
    folder = Path(config.report.summary_dir)
    curve = list(scalars(folder / 'train', 'epoch_loss').values())
    assert len(curve) == 40
    assert curve[-1] < curve[0] / 4
    step_loss = scalars(folder / 'train', 'step_loss')
    assert list(step_loss) == list(range(1, 121))
    assert all(rate == pytest.approx(0.005) for rate in scalars(folder / 'train', 'learning_rate').values())
    for tag in ('gradient_norm', 'examples_per_second', 'audio_seconds_per_second'):
        assert all(value > 0 for value in scalars(folder / 'train', tag).values()), tag
    waits = scalars(folder / 'train', 'input_wait_share').values()
    assert all(0 <= value <= 1 for value in waits)
    assert list(scalars(folder / 'dev', 'epoch_loss')) == list(range(3, 121, 3))
    histograms = [
        (event.step, value.tag)
        for event in events(folder / 'train')
        for value in event.summary.value
        if value.HasField('histo')
    ]
    assert {step for step, _ in histograms} == set(range(10, 121, 10))
    assert {'layer_1/weights', 'layer_6/bias/gradients'} <= {tag for _, tag in histograms}
    best = find_checkpoint(config.checkpoints.save_dir, BEST)
    assert best is not None


def test_losses_are_means_over_samples_whatever_the_batches(tmp_path: Path) -> None:
    """Dev losses of one model do not depend on batch size or on how the samples are split into files."""
    curves: list[float] = []
    for name, batch_size in (('a', 1), ('b', 3), ('c', 5)):
        config = toy_config(tmp_path / name, train=2, dev=5, epochs=1)
        config = replace(config, data=replace(config.data, dev_batch_size=batch_size))
        run_training(config)
        curves += scalars(Path(config.report.summary_dir) / 'dev', 'epoch_loss').values()
    assert curves == pytest.approx([curves[0]] * 3, rel=1e-5)

    config = toy_config(tmp_path / 'd', train=2, dev=5, epochs=1)
    lines = Path(config.data.dev_files[0]).read_text().splitlines()
    parts = []
    for number, rows in enumerate((lines[1:2], lines[2:])):
        part = Path(config.data.dev_files[0]).with_name(f'part{number}.csv')
        part.write_text('\n'.join([lines[0], *rows]) + '\n')
        parts.append(str(part))
    run_training(replace(config, data=replace(config.data, dev_files=tuple(parts))))
    split = scalars(Path(config.report.summary_dir) / 'dev', 'epoch_loss')
    assert list(split.values()) == pytest.approx(curves[:1], rel=1e-5)


def test_metrics_sets_are_measured_but_decide_nothing(tmp_path: Path) -> None:
    config = toy_config(tmp_path, train=2, dev=2, epochs=2)
    metrics = config.data.dev_files[0]
    config = replace(config, data=replace(config.data, dev_files=(), metrics_files=(metrics,)))
    run_training(config)
    assert len(scalars(Path(config.report.summary_dir) / 'metrics', f'loss/{metrics}')) == 2
    assert find_checkpoint(config.checkpoints.save_dir, BEST) is None


def test_an_update_with_a_bad_loss_is_skipped_and_the_file_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = toy_config(tmp_path, train=5, batch_size=1, epochs=1)
    config = replace(config, report=replace(config.report, summary_steps=1))
    with caplog.at_level('WARNING', logger='deepspeech_training'):
        train_with(config, spoil=1)
    assert int(variables(config)['global_step']) == 4
    assert all(np.isfinite(value).all() for value in variables(config).values())
    assert math.isfinite(next(iter(scalars(Path(config.report.summary_dir) / 'train', 'epoch_loss').values())))
    assert 'train_' in caplog.text
    assert '1 samples had a loss that is not finite' in caplog.text


def test_a_bad_sample_in_one_tower_stops_the_update_of_all(tmp_path: Path) -> None:
    config = toy_config(tmp_path, train=4, batch_size=1, towers=2, epochs=1)
    train_with(config, spoil=1)
    assert int(variables(config)['global_step']) == 1


def test_too_many_bad_steps_end_training_and_leave_the_last_good_checkpoint(tmp_path: Path) -> None:
    config = toy_config(tmp_path, train=4, batch_size=1, epochs=1)
    run_training(config)
    before = files_in(config.checkpoints.save_dir)
    config = replace(config, schedule=ScheduleConfig(epochs=5, max_bad_steps=3))
    with pytest.raises(TrainingDivergedError, match=r'3 steps in a row.*train_') as caught:
        train_with(config, spoil=4)
    assert caught.value.exit_status == 3
    assert files_in(config.checkpoints.save_dir) == before


def test_bad_steps_that_are_not_in_a_row_do_not_end_training(tmp_path: Path) -> None:
    config = toy_config(tmp_path, train=3, batch_size=1, epochs=4)
    config = replace(config, schedule=replace(config.schedule, max_bad_steps=2))
    train_with(config, spoil=1)
    assert int(variables(config)['global_step']) == 8


def test_plateau_reloads_the_best_and_lowers_the_learning_rate(tmp_path: Path) -> None:
    config = toy_config(tmp_path, train=4, dev=2, epochs=6)
    config = replace(
        config,
        optimizer=replace(config.optimizer, learning_rate=0.01),
        schedule=replace(
            config.schedule, reduce_lr_on_plateau=True, plateau_epochs=2, plateau_reduction=0.5, es_min_delta=1e9
        ),
    )
    run_training(config)
    rates = scalars(Path(config.report.summary_dir) / 'train', 'learning_rate')
    assert sorted(set(rates.values()), reverse=True) == pytest.approx([0.01, 0.005, 0.0025])
    last = find_checkpoint(config.checkpoints.save_dir, LAST)
    assert last is not None
    assert float(tf.train.load_checkpoint(last).get_tensor('learning_rate')) < 0.005
    steps = list(scalars(Path(config.report.summary_dir) / 'train', 'step_loss'))
    assert steps == list(range(1, 13))  # going back to the best model does not go back in time


def test_early_stop(tmp_path: Path) -> None:
    config = toy_config(tmp_path, train=2, dev=1, epochs=50)
    config = replace(config, schedule=replace(config.schedule, early_stop=True, es_epochs=3, es_min_delta=1e9))
    run_training(config)
    # The first loss is an improvement on none at all, whatever the delta.
    assert len(scalars(Path(config.report.summary_dir) / 'train', 'epoch_loss')) == 4


def test_a_resumed_run_goes_on_counting(tmp_path: Path) -> None:
    config = toy_config(tmp_path, train=4, epochs=1)
    run_training(config)
    run_training(replace(config, schedule=replace(config.schedule, epochs=2)))
    assert int(variables(config)['global_step']) == 4
    assert list(scalars(Path(config.report.summary_dir) / 'train', 'step_loss')) == [1, 2, 3, 4]


def test_a_file_that_vanishes_after_the_checks_is_named(tmp_path: Path) -> None:
    config = toy_config(tmp_path, train=3)
    tf.compat.v1.disable_v2_behavior()
    alphabet = Alphabet.from_file(config.data.alphabet_config_path)
    sets = check_data(config.data, config.features, alphabet, save_dir='', show_progressbar=False)
    Path(sets.train[1].path).unlink()
    with pytest.raises(DataError, match=Path(sets.train[1].path).name):
        train(config, sets, alphabet)


@pytest.mark.parametrize('backend', ['tensorflow', 'python_speech_features'])
@pytest.mark.parametrize('lstm', ['hoisted', 'block'])
def test_backends_and_implementations_train(tmp_path: Path, backend: str, lstm: str) -> None:
    config = toy_config(tmp_path, train=3, dev=1)
    config = replace(
        config,
        features=replace(config.features, backend=backend),
        model=replace(config.model, lstm=lstm, layer_norm=True, dropout=(0.1,) * 6),
        parallel=ParallelConfig(cpu_towers=2),
    )
    run_training(config)
    assert all(np.isfinite(value).all() for value in variables(config).values())
