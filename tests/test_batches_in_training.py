"""Trainings with batches of different sizes, and with a probe before the first step."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepspeech_training.config import Config
from deepspeech_training.data.pipeline import InputPipeline
from deepspeech_training.errors import TrainingInterruptedError
from tests.helpers import events, run_training, scalars
from tests.test_resume import assert_same_run, config_of, result_of, run_stopped_after

ROWS = 7


def variable(folder: Path, **changes: Any) -> Config:
    """Batches of one to three utterances, shuffled, with dropout; two epochs."""
    config = config_of(folder, 2, **changes)
    return replace(
        config,
        data=replace(config.data, train_batch_size=3, train_batch_frames=75, bucket_batches=True),
        schedule=replace(config.schedule, reduce_lr_on_plateau=False),
    )


@pytest.fixture(scope='module')
def whole(tmp_path_factory: pytest.TempPathFactory) -> Config:
    config = variable(tmp_path_factory.mktemp('whole'))
    run_training(config)
    return config


@pytest.mark.parametrize('steps', [1, 3])
def test_a_run_that_was_stopped_goes_on(whole: Config, tmp_path: Path, steps: int) -> None:
    config = variable(tmp_path)
    with pytest.raises(TrainingInterruptedError):
        run_stopped_after(config, steps)
    assert 0 < result_of(config)[1]['rows_done'] < ROWS
    run_training(config)
    assert_same_run(config, whole)


@pytest.mark.parametrize('changes', [{'cpu_towers': 2}, {'accumulate_steps': 2}, {'parallel': 'sync', 'cpu_towers': 2}])
def test_towers_and_accumulated_batches_resume_too(tmp_path: Path, changes: dict[str, Any]) -> None:
    plain, stopped = variable(tmp_path / 'a', **changes), variable(tmp_path / 'b', **changes)
    run_training(plain)
    with pytest.raises(TrainingInterruptedError):
        run_stopped_after(stopped, 1)
    assert 0 < result_of(stopped)[1]['rows_done'] < ROWS
    run_training(stopped)
    assert_same_run(stopped, plain)


def test_padding_is_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = variable(tmp_path)
    sets = []
    with caplog.at_level('INFO', logger='deepspeech_training'):
        sets.append(run_training(config)[0].train)
        plain = replace(config, data=replace(config.data, train_batch_frames=0, bucket_batches=False))
        plain = replace(plain, report=replace(plain.report, summary_dir=str(tmp_path / 'plain')))
        plain = replace(plain, schedule=replace(plain.schedule, epochs=3))
        sets.append(run_training(plain)[0].train)
    shown = [re.search(r'Training .* padding ([\d.]+)%', record.message) for record in caplog.records]
    shares = [float(match[1]) / 100 for match in shown if match]
    curve = list(scalars(Path(config.report.summary_dir) / 'train', 'padding_share').values())
    curve += list(scalars(tmp_path / 'plain' / 'train', 'padding_share').values())
    assert curve == pytest.approx(shares, abs=6e-4)
    assert len(curve) == 3
    assert curve[0] == curve[1] <= 0.05 < curve[2]
    assert all(any('Validation' in r.message and 'padding' in r.message for r in caplog.records) for _ in curve)
    assert sorted(sample.path for sample in sets[0]) == sorted(sample.path for sample in sets[1])


@pytest.mark.parametrize('changes', [{}, {'accumulate_steps': 2, 'cpu_towers': 2}])
def test_a_probe_changes_nothing(whole: Config, tmp_path: Path, changes: dict[str, Any]) -> None:
    """Variables, optimizer, steps, curves and what dropout drops are those of a run without."""
    expected = whole
    if changes:
        expected = variable(tmp_path / 'without', **changes)
        run_training(expected)
    config = variable(tmp_path / 'with', **changes)
    config = replace(config, schedule=replace(config.schedule, probe_longest=True))
    run_training(config)
    assert_same_run(config, expected)
    curves = [Path(each.report.summary_dir) / 'train' for each in (config, expected)]
    tags, others = ([(e.step, v.tag) for e in events(folder) for v in e.summary.value] for folder in curves)
    assert tags == others
    for tag in ('step_loss', 'gradient_norm', 'learning_rate', 'epoch_loss'):
        assert scalars(curves[0], tag) == scalars(curves[1], tag)


def test_the_largest_batch_is_probed_on_every_tower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[list[int], list[int]]] = []
    start = InputPipeline.start

    def watched(self: InputPipeline, session: Any, order: np.ndarray, sizes: Any, *rest: Any) -> None:
        frames = [self.samples[row].frames for row in order]
        begun.append((frames, sizes.tolist()))
        start(self, session, order, sizes, *rest)

    monkeypatch.setattr(InputPipeline, 'start', watched)
    config = variable(tmp_path, cpu_towers=2)
    config = replace(config, schedule=replace(config.schedule, probe_longest=True, epochs=1))
    run_training(config)
    (frames, sizes), (all_frames, all_sizes) = begun[:2]
    parts = np.split(np.array(all_frames), np.cumsum(all_sizes)[:-1])
    largest = max(len(part) * part.max() for part in parts)
    assert len(sizes) == 2
    assert [max(frames[: sizes[0]]) * sizes[0], max(frames[sizes[0] :]) * sizes[1]] == [largest] * 2


def test_how_the_batches_come_out_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = variable(tmp_path)
    config = replace(
        config,
        data=replace(config.data, train_batch_frames=20, bucket_batches=False),
        schedule=replace(config.schedule, epochs=0),
    )
    with caplog.at_level('INFO', logger='deepspeech_training'):
        frames = [sample.frames for sample in run_training(config)[0].train]
    too_long = sum(count > 20 for count in frames)
    assert too_long > 0
    assert 'An epoch has 7 batches of 1 to 1 samples' in caplog.text
    assert (
        f'--train_batch_frames=20: {too_long} samples have more frames than that, up to {max(frames)}; ' in caplog.text
    )


def test_other_flags_for_batches_begin_the_epoch_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Their order is another one: what was done of the epoch says nothing."""
    config = variable(tmp_path)
    with pytest.raises(TrainingInterruptedError):
        run_stopped_after(config, 1)
    run_training(replace(config, data=replace(config.data, train_batch_frames=100)))
    assert 'begins again' in caplog.text
