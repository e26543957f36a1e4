"""The input pipeline: from positions in a list of samples to padded batches, one a tower.

    positions -> load (read, resample, augment, encode) -> MFCCs -> batch -> filler for the last group -> prefetch

A batch is loaded in parts, several samples in one call, and one operation computes the features of a part: a call takes
as long as reading a short file does. With a feature cache, MFCCs that it has are loaded instead of audio, and those
that it lacks are added to it. Everything but the loading function is TensorFlow. The graph knows positions only:
samples and transcripts stay in Python, so neither the graph nor a session grows with the data set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

import numpy as np
import tensorflow as tf

from deepspeech_training import log
from deepspeech_training.config import N_INPUT, DataConfig, FeatureConfig
from deepspeech_training.data.augmentation.augmenter import Augmenter
from deepspeech_training.data.augmentation.moments import Moments
from deepspeech_training.data.batch import Batch
from deepspeech_training.data.batches import EpochBatches, equal_sizes
from deepspeech_training.data.feature_cache import FeatureCache, feature_settings
from deepspeech_training.data.loading import NOT_AUGMENTED, LoadedPart, SampleLoader
from deepspeech_training.data.manifest import Sample
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.workers import cores

INPUT_DEVICE = '/cpu:0'


PART_ROWS = 8
"""Most samples that are loaded together: fewer cost more calls; more take longer to a first batch, and memory."""


class _Rows(NamedTuple):
    """Utterances of a batch, or all of them."""

    names: tf.Tensor  # string [rows]
    features: tf.Tensor  # float32 [rows, frames, N_INPUT]
    feature_lengths: tf.Tensor  # int32 [rows]
    labels: tf.Tensor  # int32 [rows, characters]
    label_lengths: tf.Tensor  # int32 [rows]
    weights: tf.Tensor  # float32 [rows]
    indices: tf.Tensor  # int32 [rows]
    audio_seconds: tf.Tensor  # float32 [rows]


_SIZE_BITS = 32  # of a batch's key, in which its number stands above the number of its parts

_LOADED_TYPES = LoadedPart(
    names=tf.string,
    sound=tf.float32,
    known=tf.float32,
    places=tf.int32,
    feature_lengths=tf.int32,
    labels=tf.int32,
    label_lengths=tf.int32,
    seconds=tf.float32,
    contents=tf.int64,
    samples=tf.int64,
)
_PADDED_SHAPES = _Rows([None], [None, None, N_INPUT], [None], [None, None], [None], [None], [None], [None])


class InputPipeline:
    """Batches of a list of samples, in any order and size, through one iterator in the default graph.

    One pipeline can serve training and evaluation: `start` says which samples follow, by their positions in
    `samples`, and in what batches. Each graph step takes `towers` batches, by one `next_batch` a tower.

    `mfccs` computes features in the graph, [samples] -> [frames, N_INPUT], each frame from nothing but its own window
    of samples, and none of less than a window; None when `features.backend` is 'python_speech_features', whose features
    NumPy computes in the loading function.

    Raises `ValueError` when `mfccs` does not fit the backend or `towers` is below 1.
    """

    def __init__(
        self,
        samples: Sequence[Sample],
        alphabet: Alphabet,
        features: FeatureConfig,
        data: DataConfig,
        *,
        towers: int,
        mfccs: Callable[[tf.Tensor], tf.Tensor] | None,
        augmenter: Augmenter | None = None,
        prefix: str = 'input',
    ) -> None:
        if towers < 1:
            raise ValueError(f'towers is {towers}, and must be at least 1')
        if (mfccs is None) != (features.backend == 'python_speech_features'):
            raise ValueError(f'mfccs is {mfccs}, which does not fit the feature backend {features.backend!r}')
        self.samples = samples
        self.features = features
        self._towers = towers
        self._mfccs = mfccs
        self._prefix = prefix
        self._augments = augmenter is not None
        self._folder = data.feature_cache
        self._started, self._taken = EpochBatches(np.zeros(0, np.int32), np.zeros(0, np.int64)), 0
        self.cache: FeatureCache | None = None  # for who wants to know what came from it
        if data.feature_cache:
            self.cache = FeatureCache(data.feature_cache, feature_settings(features, tf.__version__))
            log.info(f'Feature cache {data.feature_cache}: has {len(self.cache)} utterances of these settings')
        open_cache = None if self.cache is None else self._open_cache
        self._loader = SampleLoader(samples, alphabet, features, data, self.cache, augmenter, open_cache)
        with tf.device(INPUT_DEVICE), tf.name_scope(prefix):
            self._positions = tf.compat.v1.placeholder(tf.int32, [None, None], 'positions')
            self._epoch = tf.compat.v1.placeholder(tf.int64, [], 'epoch')
            self._clocks = tf.compat.v1.placeholder(tf.float64, [None, None], 'clocks')
            self._keys = tf.compat.v1.placeholder(tf.int64, [None], 'keys')
            self._fillers = tf.compat.v1.placeholder(tf.int64, [], 'fillers')
            self._numbers = tf.compat.v1.placeholder(tf.int64, [None], 'numbers')
            self._iterator = tf.compat.v1.data.make_initializable_iterator(self._create_dataset(data.process_ahead))

    def _open_cache(self, augmentation: str) -> FeatureCache:
        """Of features that were augmented like this, for training; `self.cache` has those of dev files."""
        assert self.cache is not None
        settings = feature_settings(self.features, tf.__version__, augmentation)
        cache = FeatureCache(self._folder, settings, self.cache.contents)
        log.info(f'Feature cache {self._folder}: has {len(cache)} utterances that are augmented like this')
        return cache

    def _create_dataset(self, process_ahead: int) -> tf.data.Dataset:
        threads = cores() + 1  # reading also waits for disks; but where all are busy, more wait for Python's lock
        epochs = tf.broadcast_to(self._epoch, tf.shape(self._keys))
        parts = tf.data.Dataset.from_tensor_slices((self._positions, self._keys, epochs, self._clocks))
        parts = parts.map(self._load_part, num_parallel_calls=threads, deterministic=True)
        batches = parts.group_by_window(_key_of, _pad, window_size_func=_parts_of).map(_without_padding)
        batches = batches.concatenate(tf.data.Dataset.from_tensors(_filler()).repeat(self._fillers))
        options = tf.data.Options()
        options.deterministic = True
        options.autotune.enabled = False  # everything it would choose is given; it costs a thread
        options.experimental_optimization.apply_default_optimizations = False  # at each start, and they find nothing
        # Threads of its own: a busy graph must not hold up the input. One more than can be loading, for the clocks.
        options.threading.private_threadpool_size = threads + 1
        # Zip asks its parts one after another: the time between the clocks is what the batch made it wait.
        numbered = tf.data.Dataset.zip((batches, tf.data.Dataset.from_tensor_slices(self._numbers)))
        timed = tf.data.Dataset.zip((_clock(), numbered.prefetch(process_ahead), _clock()))
        return timed.with_options(options)

    @tf.autograph.experimental.do_not_convert  # there is nothing to convert, and the conversion writes files
    def _load_part(
        self, positions: tf.Tensor, key: tf.Tensor, epoch: tf.Tensor, clocks: tf.Tensor
    ) -> tuple[_Rows, tf.Tensor]:
        loaded = LoadedPart(*tf.numpy_function(self._loader.load_part, [positions, epoch, clocks], list(_LOADED_TYPES)))
        indices = tf.boolean_mask(positions, positions >= 0)
        rows = _Rows(
            names=tf.ensure_shape(loaded.names, [None]),
            features=tf.ensure_shape(self._features_of(loaded, epoch), [None, None, N_INPUT]),
            feature_lengths=tf.ensure_shape(loaded.feature_lengths, [None]),
            labels=tf.ensure_shape(loaded.labels, [None, None]),
            label_lengths=tf.ensure_shape(loaded.label_lengths, [None]),
            weights=tf.ones_like(indices, tf.float32),
            indices=indices,
            audio_seconds=tf.ensure_shape(loaded.seconds, [None]),
        )
        return rows, key

    def _features_of(self, loaded: LoadedPart, epoch: tf.Tensor) -> tf.Tensor:
        """MFCCs [rows, frames, N_INPUT] of samples as tensors: what was loaded, or computed from it."""
        frames = [tf.zeros([1, N_INPUT]), tf.ensure_shape(loaded.known, [None, N_INPUT])]
        if self._mfccs is not None:
            frames.append(self._mfccs(tf.ensure_shape(loaded.sound, [None])))
        features = tf.gather(tf.concat(frames, 0), loaded.places)
        if self._mfccs is None or self.cache is None:
            return features
        to_store = [loaded.contents, loaded.samples, features, loaded.feature_lengths, epoch]
        return tf.cond(
            tf.reduce_any(loaded.contents != 0),
            lambda: tf.numpy_function(self._loader.store_part, to_store, tf.float32),
            lambda: features,
        )

    def next_batch(self) -> Batch:
        """The next batch: call it once for every tower. The batches are on the CPU, whatever the device scope.

        Towers take their batches in a fixed order when each call is made under a control dependency on the batch
        of the tower before. `wait_seconds` is how long the iterator had nothing to hand out, by its own clocks, one
        tower after another: the sum over the towers is how long the step was without a batch that it wanted. Not in
        it is the time until a busy graph comes round to asking or to taking what is there. (Towers that have their
        batch compute meanwhile: the sum is the most that a quicker input could save.)

        Running it raises `tf.errors.OutOfRangeError` behind the last group of batches, and another
        `tf.errors.OpError` when a sample cannot be loaded: hand that to `reraise`.
        """
        rows: _Rows
        with tf.device(INPUT_DEVICE), tf.name_scope(self._prefix):
            asked, (rows, number), received = self._iterator.get_next()
            waited = tf.cast(received - asked, tf.float32, name='wait_seconds')
        return Batch(*rows, wait_seconds=waited, number=number)

    def start(
        self,
        session: tf.compat.v1.Session,
        order: np.ndarray,
        sizes: int | np.ndarray,
        fillers: int | None = None,
        numbers: np.ndarray | None = None,
        augment: Moments | None = None,
    ) -> None:
        """Begins again: the samples at the positions `order` (int32 [count]), in batches of `sizes` (int64 [batches]).

        Batches have exactly that order. One number is the size of all of them; the last may
        be smaller then. `fillers` batches of one row and one frame follow; by default as many as it takes until every
        tower has a batch in every step.
        `numbers`: int64 `[batches + fillers]`, the number of each batch, by default from 0.
        `augment`: the moments at which the samples are augmented; without, they are not.
        What an earlier `start` has left is given up.

        Raises `ValueError` when a position is outside of the list of samples, a size is below 1, the sizes are not
        those of as many samples as there are positions, or there are more or fewer numbers than batches.
        """
        order = np.asarray(order, np.int32).reshape(-1)
        if np.min(sizes, initial=1) < 1:
            raise ValueError(f'a batch size is {np.min(sizes)}, and must be at least 1')
        if order.size and (order.min() < 0 or order.max() >= len(self.samples)):
            raise ValueError(f'order has positions outside of 0 to {len(self.samples) - 1}')
        sizes = equal_sizes(order.size, sizes) if isinstance(sizes, int) else sizes
        if sizes.sum() != order.size:
            raise ValueError(f'batches of {sizes.sum()} samples in all do not fit the {order.size} positions of order')
        batches = len(sizes)
        fillers = -batches % self._towers if fillers is None else fillers
        numbers = np.arange(batches + fillers) if numbers is None else numbers
        if len(numbers) != batches + fillers:
            raise ValueError(f'there are {len(numbers)} numbers for {batches + fillers} batches')
        epoch = augment.epoch if augment and self._augments else NOT_AUGMENTED
        self._loader.begin(epoch)
        self._started, self._taken = EpochBatches(order, sizes), 0
        places, parts = self._started.parts(min(PART_ROWS, sizes.max(initial=1)))
        clocks = augment.clocks_at(order) if augment else np.zeros(order.size)
        session.run(
            self._iterator.initializer,
            {
                self._positions: np.where(places < 0, -1, order[places]),
                self._epoch: epoch,
                self._clocks: np.where(places < 0, 0, clocks[places]),
                self._keys: np.repeat(np.arange(batches) << _SIZE_BITS | parts, parts),
                self._fillers: fillers,
                self._numbers: numbers,
            },
        )

    def advance(self, batches: int) -> None:
        """Says that so many batches more are done with."""
        self._taken += batches

    def largest_under_way(self, batches: int, before: int = 0) -> list[Sample]:
        """Of the next `batches`, and the last `before`, the one with the most frames, padding included."""
        first = max(0, self._taken - before)
        started = self._started
        found = [
            [self.samples[row] for row in started.rows[started.rows_after(number) : started.rows_after(number + 1)]]
            for number in range(first, min(self._taken + batches, len(started.sizes)))
        ]
        return max(found, key=lambda batch: len(batch) * max(sample.frames for sample in batch), default=[])

    def reraise(self, error: tf.errors.OpError) -> NoReturn:
        """Raises what went wrong with a sample, a `DataError` as a rule, or else `error` itself."""
        failure = self._loader.failure_in(error.message)
        if failure is None:
            raise error
        raise failure from failure.__cause__


@tf.autograph.experimental.do_not_convert
def _key_of(_: _Rows, key: tf.Tensor) -> tf.Tensor:
    return key


@tf.autograph.experimental.do_not_convert
def _parts_of(key: tf.Tensor) -> tf.Tensor:
    """How many parts the batch with this key has."""
    return tf.bitwise.bitwise_and(key, (1 << _SIZE_BITS) - 1)


@tf.autograph.experimental.do_not_convert
def _pad(key: tf.Tensor, parts: tf.data.Dataset) -> tf.data.Dataset:
    """All `parts` of the batch, with one dimension more in front, and the indices of rows that are padding -1."""
    padding = _Rows('', 0.0, 0, 0, 0, 0.0, -1, 0.0)
    return parts.padded_batch(_parts_of(key), (_PADDED_SHAPES, []), (padding, tf.constant(0, tf.int64)))


@tf.autograph.experimental.do_not_convert
def _without_padding(parts: _Rows, _: tf.Tensor) -> _Rows:
    """The batch of `parts`, of which only the last can have fewer rows than the first."""
    count = tf.math.count_nonzero(parts.indices >= 0)
    return _Rows(*(tf.reshape(field, tf.concat([[-1], tf.shape(field)[2:]], 0))[:count] for field in parts))


def _clock() -> tf.data.Dataset:
    """The time of each call, in seconds, without an end."""
    now = tf.autograph.experimental.do_not_convert(lambda _: tf.timestamp())
    return tf.data.Dataset.from_tensors(0).repeat().map(now)


def _filler() -> _Rows:
    """A batch of one row that counts for nothing: one silent frame, one label, weight 0."""
    return _Rows(
        names=tf.constant(['']),
        features=tf.zeros([1, 1, N_INPUT]),
        feature_lengths=tf.constant([1]),
        labels=tf.constant([[0]]),
        label_lengths=tf.constant([1]),
        weights=tf.constant([0.0]),
        indices=tf.constant([-1]),
        audio_seconds=tf.constant([0.0]),
    )
