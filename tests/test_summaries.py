from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from deepspeech_training.summaries import SummaryWriter, log_grads_and_vars
from tests.helpers import events, scalars, texts


def test_variables_and_gradients_are_described_under_their_own_names(graph: tf.Graph, tmp_path: Path) -> None:
    weights = np.array([[1.0, 2.0], [3.0, 6.0]], np.float32)
    variable = tf.compat.v1.get_variable('layer_1/weights', initializer=weights, use_resource=True)
    with tf.name_scope('somewhere'):
        summary = log_grads_and_vars([(tf.constant([[0.5, -0.5], [0.0, 0.0]]), variable)])
    writer = SummaryWriter(str(tmp_path))
    with tf.compat.v1.Session() as session:
        session.run(variable.initializer)
        writer.serialized('train', 7, session.run(summary))
    writer.close()
    for name, values in (('layer_1/weights', weights), ('layer_1/weights/gradients', np.array([0.5, -0.5, 0, 0]))):
        for statistic in ('mean', 'min', 'max'):
            expected = getattr(np, statistic)(values)
            assert scalars(tmp_path / 'train', f'{name}/{statistic}') == {7: pytest.approx(expected)}
        assert scalars(tmp_path / 'train', f'{name}/stddev') == {7: pytest.approx(values.std())}
    histograms = {
        value.tag: value.histo.num
        for event in events(tmp_path / 'train')
        for value in event.summary.value
        if value.HasField('histo')
    }
    assert histograms == {'layer_1/weights': 4, 'layer_1/weights/gradients': 4}


def test_curves_are_written_per_part_and_step(tmp_path: Path) -> None:
    writer = SummaryWriter(str(tmp_path))
    for step in (1, 2):
        writer.scalars('train', step, {'step_loss': 10.0 / step})
    writer.scalars('dev', 2, {'epoch_loss': 4.0})
    writer.close()
    assert scalars(tmp_path / 'train', 'step_loss') == {1: 10.0, 2: 5.0}
    assert scalars(tmp_path / 'dev', 'epoch_loss') == {2: 4.0}


def test_without_a_directory_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    writer = SummaryWriter('')
    writer.scalars('train', 1, {'step_loss': 1.0})
    writer.serialized('train', 1, b'')
    writer.close()
    assert not writer.enabled
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_ends_the_curves_not_the_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / 'file').write_text('')
    writer = SummaryWriter(str(tmp_path / 'file' / 'summaries'))
    for step in (1, 2):
        writer.scalars('train', step, {'step_loss': 1.0})
    writer.flush()
    writer.close()
    assert not writer.enabled
    assert len(caplog.records) == 1
    assert 'file/summaries' in caplog.text


def test_tensorboard_forgets_what_a_killed_run_had_not_saved(tmp_path: Path) -> None:
    """It wrote four steps and saved two; the run that goes on writes the third again, and another fourth."""
    for saved, losses in ((None, {1: 4.0, 2: 3.0, 3: 9.0, 4: 9.0, 5: 9.0}), (2, {3: 2.0, 4: 1.0})):
        writer = SummaryWriter(str(tmp_path))
        if saved is not None:
            time.sleep(1.1)  # the files' names have the second
            writer.go_on_after(saved)
        for step, loss in losses.items():
            writer.scalars('train', step, {'step_loss': loss})
        writer.close()
    shown = EventAccumulator(str(tmp_path / 'train'))
    shown.Reload()
    assert [(event.step, event.value) for event in shown.Scalars('step_loss')] == [
        (1, 4.0),
        (2, 3.0),
        (3, 2.0),
        (4, 1.0),
    ]


def test_texts_are_on_the_text_page(tmp_path: Path) -> None:
    writer = SummaryWriter(str(tmp_path))
    writer.texts('dev', 3, {'transcripts/a.csv': '**Worst**\n\nпривет'})
    writer.texts('dev', 4, {})
    writer.close()
    assert texts(tmp_path / 'dev', 'transcripts/a.csv') == {3: '**Worst**\n\nпривет'}
    shown = EventAccumulator(str(tmp_path / 'dev')).Reload()
    assert shown.PluginTagToContent('text').keys() == {'transcripts/a.csv'}
    assert [event.step for event in shown.Tensors('transcripts/a.csv')] == [3]
