"""The input pipeline, with real files, read through a session."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast, overload

import numpy as np
import pytest
import soundfile as sf
import tensorflow as tf

from deepspeech_training.audio.reading import read_audio
from deepspeech_training.audio.reference import reference_mfccs
from deepspeech_training.config import N_INPUT, DataConfig, FeatureConfig
from deepspeech_training.data.batch import Batch
from deepspeech_training.data.manifest import Sample
from deepspeech_training.data.pipeline import PART_ROWS, InputPipeline
from deepspeech_training.errors import DataError
from deepspeech_training.model.features import compute_mfccs
from deepspeech_training.text.alphabet import Alphabet

ALPHABET = Alphabet([' ', 'a', 'b', 'c'])
TRANSCRIPTS = ['a', 'b c', 'abc', 'cab', 'c', 'ab', 'a b', 'bc', 'ca', 'cba']
MILLISECONDS = [40, 500, 32, 730, 250, 333, 610, 90, 480, 120]
BACKENDS = ['tensorflow', 'python_speech_features']


def make_samples(folder: Path, count: int = len(TRANSCRIPTS), rate: int = 16000, scale: int = 1) -> list[Sample]:
    """Files of noise, of `scale` times `MILLISECONDS`."""
    generator = np.random.default_rng(count)
    samples = []
    for number in range(count):
        length = rate * scale * MILLISECONDS[number % len(MILLISECONDS)] // 1000
        path = folder / f'файл {number}.wav'
        sf.write(path, generator.uniform(-0.5, 0.5, length), rate, subtype='PCM_16')
        transcript = TRANSCRIPTS[number % len(TRANSCRIPTS)]
        samples.append(Sample(str(path), path.stat().st_size, transcript, 'some.csv', number + 2))
    return samples


@pytest.fixture
def samples(tmp_path: Path) -> list[Sample]:
    return make_samples(tmp_path)


class Feed:
    """A pipeline in a graph of its own, its batches of all towers, and a session."""

    def __init__(
        self,
        samples: Sequence[Sample],
        *,
        towers: int = 1,
        backend: str = 'tensorflow',
        process_ahead: int = 4,
        ordered: bool = True,
        window_ms: int = 32,
        step_ms: int = 20,
    ) -> None:
        features = FeatureConfig(backend=backend, window_ms=window_ms, step_ms=step_ms)
        mfccs: Callable[[tf.Tensor], tf.Tensor] | None = None
        if backend == 'tensorflow':
            mfccs = lambda audio: compute_mfccs(audio, features)  # noqa: E731
        tf.compat.v1.disable_v2_behavior()
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.pipeline = InputPipeline(
                samples, ALPHABET, features, DataConfig(process_ahead=process_ahead), towers=towers, mfccs=mfccs
            )
            self.batches: list[Batch] = []
            for _ in range(towers):
                with tf.control_dependencies(list(self.batches[-1]) if ordered and self.batches else []):
                    self.batches.append(self.pipeline.next_batch())
        self.session = tf.compat.v1.Session(graph=self.graph)

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *args: object) -> None:
        self.session.close()

    def start(self, order: Sequence[int], batch_size: int) -> None:
        self.pipeline.start(self.session, np.asarray(order, np.int32), batch_size)

    def step(self) -> list[Batch]:
        """The batches of all towers, as arrays."""
        return cast('list[Batch]', self.session.run(self.batches))

    def rest(self) -> Iterator[list[Batch]]:
        while True:
            try:
                yield self.step()
            except tf.errors.OutOfRangeError:
                return

    def epoch(self, order: Sequence[int], batch_size: int) -> list[list[Batch]]:
        self.start(order, batch_size)
        return list(self.rest())


def strings(names: Any) -> list[str]:
    return [os.fsdecode(name) for name in names]


def test_batches_follow_the_order_and_the_last_is_smaller(samples: list[Sample]) -> None:
    order = [7, 2, 9, 0, 4, 1, 8, 3]
    with Feed(samples) as feed:
        batches = [batch for (batch,) in feed.epoch(order, 3)]
    assert [list(batch.indices) for batch in batches] == [[7, 2, 9], [0, 4, 1], [8, 3]]
    assert [name for batch in batches for name in strings(batch.names)] == [samples[i].path for i in order]
    assert all(np.all(batch.weights == 1) for batch in batches)


@pytest.mark.parametrize('backend', BACKENDS)
def test_rows_have_their_labels_lengths_and_zeros_behind(samples: list[Sample], backend: str) -> None:
    features = FeatureConfig()
    with Feed(samples, backend=backend) as feed:
        ((batch,),) = feed.epoch(range(len(samples)), len(samples))
    frames = [features.frames(16 * ms) for ms in MILLISECONDS]
    assert batch.features.dtype == np.float32
    assert batch.features.shape == (len(samples), max(frames), N_INPUT)
    assert list(batch.feature_lengths) == frames
    np.testing.assert_allclose(batch.audio_seconds, np.array(MILLISECONDS) / 1000, rtol=1e-6)
    assert list(batch.label_lengths) == [len(text) for text in TRANSCRIPTS]
    for row, text in enumerate(TRANSCRIPTS):
        assert list(batch.labels[row]) == ALPHABET.encode(text) + [0] * (3 - len(text))
        assert np.all(np.any(batch.features[row, : frames[row]] != 0, axis=1))
        assert np.all(batch.features[row, frames[row] :] == 0)


@pytest.mark.parametrize('backend', BACKENDS)
def test_a_batch_has_the_features_of_its_files_alone(samples: list[Sample], backend: str) -> None:
    with Feed(samples, backend=backend) as feed:
        ((batch,),) = feed.epoch(range(len(samples)), len(samples))
        alone = [single for (single,) in feed.epoch(range(len(samples)), 1)]
    for row, single in enumerate(alone):
        np.testing.assert_array_equal(batch.features[row, : single.feature_lengths[0]], single.features[0])


@pytest.mark.parametrize(('window_ms', 'step_ms'), [(32, 20), (25, 10), (20, 20), (16, 24)])
def test_samples_of_large_batches_are_as_alone(tmp_path: Path, window_ms: int, step_ms: int) -> None:
    samples = make_samples(tmp_path, 2 * PART_ROWS + 3)
    order = np.random.default_rng(1).permutation(len(samples)).tolist()
    with Feed(samples, window_ms=window_ms, step_ms=step_ms) as feed:
        alone = {batch.indices[0]: batch for (batch,) in feed.epoch(order, 1)}
        for size in [PART_ROWS - 1, PART_ROWS, PART_ROWS + 1, 2 * PART_ROWS, len(samples)]:
            batches = [batch for (batch,) in feed.epoch(order, size)]
            assert [list(batch.indices) for batch in batches] == [
                order[start : start + size] for start in range(0, len(order), size)
            ]
            for batch in batches:
                assert batch.features.shape == (len(batch.indices), batch.feature_lengths.max(), N_INPUT)
                assert batch.labels.shape == (len(batch.indices), batch.label_lengths.max())
                for row, index in enumerate(batch.indices):
                    assert_row(batch, row, alone[index])


def assert_row(batch: Batch, row: int, alone: Batch) -> None:
    frames, characters = alone.feature_lengths[0], alone.label_lengths[0]
    np.testing.assert_array_equal(batch.features[row, :frames], alone.features[0])
    assert not np.any(batch.features[row, frames:])
    np.testing.assert_array_equal(batch.labels[row, :characters], alone.labels[0])
    assert not np.any(batch.labels[row, characters:])
    for name in ['names', 'feature_lengths', 'label_lengths', 'weights', 'audio_seconds']:
        assert getattr(batch, name)[row] == getattr(alone, name)[0]


def test_features_are_those_of_the_audio(samples: list[Sample]) -> None:
    features = FeatureConfig()
    audio = read_audio(samples[3].path, features)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        expected = session.run(compute_mfccs(tf.constant(audio), features))
    with Feed(samples) as feed:
        ((batch,),) = feed.epoch([3], 1)
    np.testing.assert_array_equal(batch.features[0], expected)
    with Feed(samples, backend='python_speech_features') as feed:
        ((batch,),) = feed.epoch([3], 1)
    np.testing.assert_array_equal(batch.features[0], reference_mfccs(audio, features))


def test_a_sample_of_one_frame(samples: list[Sample]) -> None:
    with Feed(samples) as feed:
        ((batch,),) = feed.epoch([MILLISECONDS.index(32)], 1)
    assert batch.features.shape == (1, 1, N_INPUT)
    assert list(batch.feature_lengths) == [1]


def test_other_sample_rates_are_resampled(tmp_path: Path) -> None:
    samples = make_samples(tmp_path, 3, rate=8000)
    with Feed(samples) as feed:
        ((batch,),) = feed.epoch([0, 1, 2], 3)
    assert list(batch.feature_lengths) == [FeatureConfig().frames(16 * ms) for ms in MILLISECONDS[:3]]
    np.testing.assert_allclose(batch.audio_seconds, np.array(MILLISECONDS[:3]) / 1000, rtol=1e-6)


@pytest.mark.parametrize('towers', [1, 2, 3])
def test_every_group_is_complete_and_no_sample_is_lost(samples: list[Sample], towers: int) -> None:
    with Feed(samples, towers=towers) as feed:
        for count in [0, 1, 4, 6, 9, 10]:
            steps = feed.epoch(range(count), 3)
            assert len(steps) == -(-count // (3 * towers))
            batches = [batch for step in steps for batch in step]
            indices = [index for batch in batches for index in batch.indices]
            assert [index for index in indices if index >= 0] == list(range(count))
            for batch in batches[-(-count // 3) :]:
                assert_filler(batch)


def assert_filler(batch: Batch) -> None:
    assert strings(batch.names) == ['']
    assert list(batch.indices) == [-1]
    assert list(batch.weights) == [0]
    assert list(batch.audio_seconds) == [0]
    assert list(batch.feature_lengths) == list(batch.label_lengths) == [1]
    np.testing.assert_array_equal(batch.features, np.zeros([1, 1, N_INPUT], np.float32))
    np.testing.assert_array_equal(batch.labels, [[0]])


def test_two_epochs_are_equal_bit_by_bit(samples: list[Sample]) -> None:
    with Feed(samples, towers=2) as feed:
        first, second = feed.epoch(range(10), 2), feed.epoch(range(10), 2)
    for one, other in zip(first, second, strict=True):
        for a, b in zip(one, other, strict=True):
            for name in set(Batch._fields) - {'wait_seconds'}:
                np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_starting_again_gives_up_what_was_left(samples: list[Sample]) -> None:
    with Feed(samples) as feed:
        feed.start(range(10), 2)
        feed.step()
        batches = [batch for (batch,) in feed.epoch([5, 1], 1)]
    assert [list(batch.indices) for batch in batches] == [[5], [1]]


def test_a_file_that_vanished_is_named(samples: list[Sample]) -> None:
    Path(samples[4].path).unlink()
    with Feed(samples, towers=2) as feed:
        feed.start(range(10), 2)
        assert [list(batch.indices) for batch in feed.step()] == [[0, 1], [2, 3]]
        with pytest.raises(tf.errors.OpError) as caught:
            feed.step()
        assert not isinstance(caught.value, tf.errors.OutOfRangeError)
        with pytest.raises(DataError, match='файл 4'):
            feed.pipeline.reraise(caught.value)
        assert len(feed.epoch([0, 1, 2, 3], 2)) == 1


def test_of_a_large_batch_the_file_that_vanished_is_named(tmp_path: Path) -> None:
    samples = make_samples(tmp_path, 2 * PART_ROWS)
    Path(samples[PART_ROWS + 1].path).unlink()
    with Feed(samples) as feed:
        feed.start(range(len(samples)), len(samples))
        with pytest.raises(tf.errors.OpError) as caught:
            feed.step()
        with pytest.raises(DataError, match=f'файл {PART_ROWS + 1}.wav'):
            feed.pipeline.reraise(caught.value)


def test_a_file_cut_shorter_than_a_window_is_named(samples: list[Sample]) -> None:
    sf.write(samples[2].path, np.zeros(100), 16000)
    with Feed(samples) as feed:
        feed.start([2], 1)
        with pytest.raises(tf.errors.OpError) as caught:
            feed.step()
        with pytest.raises(DataError, match=r'файл 2.wav.*32 ms.*some.csv'):
            feed.pipeline.reraise(caught.value)


def test_a_character_outside_of_the_alphabet_is_a_data_error(samples: list[Sample]) -> None:
    bad = Sample(samples[0].path, samples[0].size, 'a?', 'some.csv', 2)
    with Feed([bad]) as feed:
        feed.start([0], 1)
        with pytest.raises(tf.errors.OpError) as caught:
            feed.step()
        with pytest.raises(DataError, match=r'\?') as raised:
            feed.pipeline.reraise(caught.value)
    assert str(raised.value).startswith(f'some.csv:2: {bad.path}: ')


def test_an_error_of_the_program_names_the_file_too(samples: list[Sample]) -> None:
    broken = Sample(samples[0].path, samples[0].size, cast('str', 7), 'some.csv', 2)
    with Feed([broken]) as feed:
        feed.start([0], 1)
        with pytest.raises(tf.errors.OpError) as caught:
            feed.step()
        with pytest.raises(RuntimeError, match=r'файл 0.wav \(some.csv:2\).*TypeError') as raised:
            feed.pipeline.reraise(caught.value)
    assert isinstance(raised.value.__cause__, TypeError)


def test_errors_from_elsewhere_come_back_as_they_are(samples: list[Sample]) -> None:
    Path(samples[0].path).unlink()
    with Feed(samples) as feed:
        feed.start([0], 1)
        with pytest.raises(tf.errors.OpError):
            feed.step()
        other = tf.errors.ResourceExhaustedError(None, None, 'no memory left')
        with pytest.raises(tf.errors.ResourceExhaustedError):
            feed.pipeline.reraise(other)


@pytest.mark.parametrize(('order', 'batch_size'), [([10], 1), ([-1], 1), ([0], 0)])
def test_wrong_orders_and_batch_sizes(samples: list[Sample], order: list[int], batch_size: int) -> None:
    with Feed(samples) as feed, pytest.raises(ValueError, match=r'order|batch size'):
        feed.start(order, batch_size)


def test_wrong_towers_and_features(samples: list[Sample], graph: tf.Graph) -> None:
    with pytest.raises(ValueError, match='towers'):
        InputPipeline(samples, ALPHABET, FeatureConfig(), DataConfig(), towers=0, mfccs=tf.identity)
    with pytest.raises(ValueError, match='backend'):
        InputPipeline(samples, ALPHABET, FeatureConfig(), DataConfig(), towers=1, mfccs=None)


class SlowSamples(Sequence[Sample]):
    """Samples that take their time, one after another."""

    def __init__(self, samples: list[Sample], seconds: float) -> None:
        self._samples = samples
        self._seconds = seconds
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._samples)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | Sequence[Sample]:
        with self._lock:
            time.sleep(self._seconds)
        return self._samples[index]


@pytest.mark.parametrize('ordered', [True, False])
def test_waiting_for_input_is_counted_once(samples: list[Sample], ordered: bool) -> None:
    with Feed(SlowSamples(samples, 0.1), towers=2, ordered=ordered) as feed:
        feed.start(range(8), 2)
        begin = time.perf_counter()
        waits = [[batch.wait_seconds for batch in step] for step in feed.rest()]
        elapsed = time.perf_counter() - begin
    assert 0.4 < np.sum(waits) <= elapsed  # 0.8 s, less what was read while the steps themselves ran


def test_batches_read_ahead_are_not_waited_for(samples: list[Sample]) -> None:
    with Feed(SlowSamples(samples, 0.05), towers=2, process_ahead=8) as feed:
        feed.start(range(8), 2)
        first = feed.step()
        time.sleep(0.5)
        (second,) = feed.rest()
    assert sum(batch.wait_seconds for batch in first) > 0.15
    assert sum(batch.wait_seconds for batch in second) < 0.1


def test_input_stays_on_the_first_cpu(samples: list[Sample], graph: tf.Graph) -> None:
    features = FeatureConfig()
    pipeline = InputPipeline(
        samples, ALPHABET, features, DataConfig(), towers=1, mfccs=lambda audio: compute_mfccs(audio, features)
    )
    with tf.device('/cpu:3'), tf.name_scope('tower_3'):
        pipeline.next_batch()
    assert {operation.device for operation in graph.get_operations()} == {'/device:CPU:0'}


def test_the_graph_does_not_grow_with_the_data(samples: list[Sample]) -> None:
    with Feed(samples[:1]) as few, Feed(samples * 100) as many:
        sizes = [len(feed.graph.as_graph_def().SerializeToString()) for feed in (few, many)]
        assert abs(sizes[0] - sizes[1]) < 100


def open_files_and_threads() -> tuple[int, int]:
    return len(os.listdir('/proc/self/fd')), len(os.listdir('/proc/self/task'))


def resident_bytes() -> int:
    return int(Path('/proc/self/statm').read_text().split()[1]) * os.sysconf('SC_PAGE_SIZE')


@pytest.mark.skipif(not Path('/proc/self/task').is_dir(), reason='this system has no /proc')
def test_nothing_is_left_over_after_epochs_and_sessions(tmp_path: Path) -> None:
    samples = make_samples(tmp_path, 50, scale=4)  # 4 MB of float32 an epoch
    with Feed(samples) as feed:  # TensorFlow starts threads that stay as long as the process
        feed.epoch(range(50), 8)
    gc.collect()  # what earlier tests left is not to be closed while files are counted
    idle = open_files_and_threads()
    with Feed(samples) as feed:
        for _ in range(5):
            feed.epoch(range(50), 8)
        after_few, bytes_after_few = open_files_and_threads(), resident_bytes()
        for number in range(20):
            if number % 4 == 0:
                feed.start(range(50), 8)
                feed.step()
            feed.epoch(range(50), 8)
        after_many, bytes_after_many = open_files_and_threads(), resident_bytes()
    closed = open_files_and_threads()
    assert after_many[0] == after_few[0] == closed[0] == idle[0]
    assert after_many[1] <= after_few[1] + 1
    assert closed[1] <= idle[1] + 1
    assert bytes_after_many - bytes_after_few < 30e6
