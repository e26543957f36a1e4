#!/usr/bin/env python
"""Measures the input pipeline alone: utterances and audio seconds per second, as a whole and stage by stage.

    python bin/bench_input.py train.csv --batch_size 16 --epochs 7

The stages run one after another in one thread, and their CPU time is shown, so that other programs disturb little; then
the whole pipeline with all its threads and nothing else to do: its CPU time, and what it delivers by the clock. Every
figure is the median of as many repeats as `--epochs` says, after one more that is not counted.

With `--formats` also reading, and the look at headers before a training, for the same utterances in one file format
after the other. With `--peer_python PYTHON` the same files through PyTorch's DataLoader and torchaudio's MFCCs.

With `--feature_cache FOLDER` also the pipeline with a feature cache, in a new folder inside of that one: the epoch that
fills it, and those that read it. With `--augment` each augmentation by itself, in one thread, and the pipeline with all
of them; what changes spectrograms or features also computes the features, in NumPy.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from input_bench.formats import time_formats
from input_bench.peer import time_peer
from input_bench.stage import HEADER, STAGE_SAMPLES, Runs, Stage, evenly, timed

from deepspeech_training.audio.reading import audio_info, read_audio
from deepspeech_training.audio.reference import reference_mfccs
from deepspeech_training.config import DataConfig, FeatureConfig
from deepspeech_training.data.augmentation.augmenter import Augmenter, Moment
from deepspeech_training.data.augmentation.moments import Moments
from deepspeech_training.data.manifest import Sample, read_csv
from deepspeech_training.errors import DataError
from deepspeech_training.programs import exit_status
from deepspeech_training.text.alphabet import Alphabet

if TYPE_CHECKING:
    from deepspeech_training.data.pipeline import InputPipeline


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('csv', nargs='+', help='CSV files that list utterances')
    parser.add_argument('--alphabet', default='', help='alphabet file; without it, the characters of the transcripts')
    parser.add_argument('--batch_size', type=positive, default=16, help='utterances a batch (default %(default)s)')
    parser.add_argument('--epochs', type=positive, default=5, help='repeats of each measurement (default %(default)s)')
    parser.add_argument('--limit', type=positive, help='use only so many utterances (default: all)')
    parser.add_argument('--process_ahead', type=positive, default=16, help='batches ahead (default %(default)s)')
    parser.add_argument('--sample_rate', type=positive, default=16000, help="the model's, in Hz (default %(default)s)")
    parser.add_argument(
        '--feature_backend',
        choices=['tensorflow', 'python_speech_features'],
        default='tensorflow',
        help='what computes the MFCCs (default %(default)s)',
    )
    parser.add_argument('--formats', action='store_true', help='measure reading of other file formats too')
    parser.add_argument(
        '--peer_python', metavar='PYTHON', help='measure PyTorch too, with a Python that has torchaudio'
    )
    parser.add_argument('--feature_cache', metavar='FOLDER', help='measure a feature cache too, in a new folder there')
    parser.add_argument('--augment', action='append', default=[], help='measure an augmentation; several times')
    return parser.parse_args(arguments)


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f'{text} is not at least 1')
    return number


def read_samples(paths: Sequence[str], limit: int | None) -> list[Sample]:
    """The utterances of all files by ascending size. Raises `DataError` for rows that cannot be used."""
    samples: list[Sample] = []
    for path in paths:
        found, problems = read_csv(path)
        if problems:
            raise DataError(f'{problems[0]} ({len(problems)} such rows in {path})')
        samples += found
    samples.sort(key=lambda sample: sample.size)
    if limit:
        samples = evenly(samples, limit)
    if not samples:
        raise DataError(f'{", ".join(paths)}: no utterances')
    return samples


def time_stages(samples: Sequence[Sample], features: FeatureConfig, repeats: int) -> list[Stage]:
    """Reading, resampling and features of a part of `samples`, one after another in one thread."""
    part = evenly(samples, STAGE_SAMPLES)
    stored = [replace(features, sample_rate=audio_info(sample.path).sample_rate) for sample in part]
    audio = [read_audio(sample.path, features) for sample in part]
    audio_seconds = sum(map(len, audio)) / features.sample_rate / len(part)

    def read_as_stored() -> None:
        for sample, rate in zip(part, stored, strict=True):
            read_audio(sample.path, rate)

    def read_resampled() -> None:
        for sample in part:
            read_audio(sample.path, features)

    reading = timed(read_as_stored, repeats)
    resampled = timed(read_resampled, repeats)
    resampling = [both - read for both, read in zip(resampled, reading, strict=True)]
    if all(rate.sample_rate == features.sample_rate for rate in stored):
        resampling = [0.0]
    computing = time_features(audio, features, repeats)
    return [
        Stage(name, statistics.median(runs) / len(part), audio_seconds)
        for name, runs in [('read', reading), ('resample', resampling), ('features', computing)]
    ]


def time_features(audio: Sequence[np.ndarray], features: FeatureConfig, repeats: int) -> Runs:
    """MFCCs of all of `audio`; for TensorFlow in one loop of one run, without the time of many calls."""
    if features.backend == 'python_speech_features':
        return timed(lambda: [reference_mfccs(samples, features) for samples in audio], repeats)

    import tensorflow as tf

    from deepspeech_training.model.features import compute_mfccs

    ends = np.cumsum([len(samples) for samples in audio], dtype=np.int32)
    begins = np.concatenate([[0], ends[:-1]]).astype(np.int32)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        joined = tf.compat.v1.placeholder(tf.float32, [None])
        bounds = tf.compat.v1.placeholder(tf.int32, [None, 2])

        def body(number: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            mfccs = compute_mfccs(joined[bounds[number, 0] : bounds[number, 1]], features)
            return number + 1, total + mfccs[-1, 0]

        _, total = tf.while_loop(lambda number, _: number < tf.shape(bounds)[0], body, [0, 0.0], parallel_iterations=1)
        feed = {joined: np.concatenate(audio), bounds: np.stack([begins, ends], axis=1)}
        return timed(partial(session.run, total, feed), repeats)


def time_augmentations(
    samples: Sequence[Sample], texts: Sequence[str], features: FeatureConfig, repeats: int
) -> list[Stage]:
    """Each of `texts` by itself, on a part of `samples`, in one thread."""
    part = evenly(samples, STAGE_SAMPLES)
    audio = [read_audio(sample.path, features) for sample in part]
    audio_seconds = sum(map(len, audio)) / features.sample_rate / len(part)
    stages = []
    for text in texts:
        augmenter = Augmenter([text], features, seed=1)

        def run(augmenter: Augmenter = augmenter) -> None:
            for number, samples in enumerate(audio):
                augmenter(samples, Moment(0, number, number / len(audio)))

        seconds = statistics.median(timed(run, repeats)) / len(part)
        stages.append(Stage(f'augment: {augmenter.specs[0].name}', seconds, audio_seconds))
    return stages


def make_pipeline(
    samples: Sequence[Sample],
    alphabet: Alphabet,
    features: FeatureConfig,
    data: DataConfig,
) -> InputPipeline:
    from deepspeech_training.data.pipeline import InputPipeline
    from deepspeech_training.model.features import compute_mfccs

    in_graph = features.backend == 'tensorflow'
    mfccs = partial(compute_mfccs, features=features) if in_graph else None
    augmenter = Augmenter(data.augment, features, seed=1) if data.augment else None
    return InputPipeline(samples, alphabet, features, data, towers=1, mfccs=mfccs, augmenter=augmenter)


def time_pipeline(
    samples: Sequence[Sample],
    alphabet: Alphabet,
    features: FeatureConfig,
    data: DataConfig,
    repeats: int,
) -> tuple[Runs, Runs, float]:
    """Seconds and CPU seconds of each epoch of the pipeline, the first included, and seconds of audio of one epoch."""
    import tensorflow as tf

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        pipeline = make_pipeline(samples, alphabet, features, data)
        # The batch itself is not fetched: a training step takes it inside of the graph.
        audio_seconds = tf.reduce_sum(pipeline.next_batch().audio_seconds)
        order = np.arange(len(samples), dtype=np.int32)
        elapsed, used, total = [], [], 0.0
        for epoch in range(repeats + 1):
            moments = Moments(epoch, np.full(len(samples), epoch / (repeats + 1))) if data.augment else None
            begin, cpu_begin, total = time.perf_counter(), time.process_time(), 0.0
            pipeline.start(session, order, data.train_batch_size, augment=moments)
            try:
                while True:
                    total += float(session.run(audio_seconds))
            except tf.errors.OutOfRangeError:
                pass
            except tf.errors.OpError as error:
                pipeline.reraise(error)
            elapsed.append(time.perf_counter() - begin)
            used.append(time.process_time() - cpu_begin)
    return elapsed, used, total


def time_cache(
    samples: Sequence[Sample],
    alphabet: Alphabet,
    features: FeatureConfig,
    data: DataConfig,
    options: argparse.Namespace,
) -> list[Stage]:
    """The pipeline while it fills a new feature cache, once, and when it reads from it."""
    with tempfile.TemporaryDirectory(dir=options.feature_cache) as folder:
        data = replace(data, feature_cache=folder)
        elapsed, used, total = time_pipeline(samples, alphabet, features, data, options.epochs)
        count, audio_seconds = len(samples), total / len(samples)
        kept = sum(path.stat().st_size for path in Path(folder).rglob('*.features'))
    print(f'the cache: {kept / 1e6:.1f} MB, {kept / total / 1e3:.1f} kB a second of audio')
    return [
        Stage('filling a cache, by the clock', elapsed[0] / count, audio_seconds),
        Stage('from a cache, CPU time', statistics.median(used[1:]) / count, audio_seconds),
        Stage('from a cache, by the clock', statistics.median(elapsed[1:]) / count, audio_seconds),
    ]


def time_augmented(
    samples: Sequence[Sample],
    alphabet: Alphabet,
    features: FeatureConfig,
    data: DataConfig,
    options: argparse.Namespace,
) -> list[Stage]:
    """Each augmentation by itself, and the pipeline with all of them."""
    stages = time_augmentations(samples, options.augment, features, options.epochs)
    data = replace(data, augment=tuple(options.augment))
    elapsed, used, total = time_pipeline(samples, alphabet, features, data, options.epochs)
    count, audio_seconds = len(samples), total / len(samples)
    return [
        *stages,
        Stage('augmented, CPU time', statistics.median(used[1:]) / count, audio_seconds),
        Stage('augmented, by the clock', statistics.median(elapsed[1:]) / count, audio_seconds),
    ]


def set_up_tensorflow() -> None:
    """Graphs and sessions, and no more log lines than needed."""
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
    import tensorflow as tf

    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    tf.compat.v1.disable_v2_behavior()


def measure(options: argparse.Namespace) -> None:
    samples = read_samples(options.csv, options.limit)
    characters = sorted(set().union(*(sample.transcript for sample in samples)))
    alphabet = Alphabet.from_file(options.alphabet) if options.alphabet else Alphabet(characters)
    features = FeatureConfig(sample_rate=options.sample_rate, backend=options.feature_backend)
    data = DataConfig(train_batch_size=options.batch_size, process_ahead=options.process_ahead)

    set_up_tensorflow()
    stages = time_stages(samples, features, options.epochs)
    elapsed, used, total = time_pipeline(samples, alphabet, features, data, options.epochs)
    elapsed, used = elapsed[1:], used[1:]
    audio_seconds = total / len(samples)
    cpu = statistics.median(used) / len(samples)
    rest = cpu - sum(stage.seconds for stage in stages)

    print(
        f'{len(samples):,} utterances, {total / 60:.1f} minutes of audio, {audio_seconds:.2f} s an utterance; '
        f'batches of {options.batch_size}; {options.feature_backend}; medians of {options.epochs}'
    )
    print(HEADER)
    for stage in stages:
        print(stage.row())
    print(Stage('calls, batches, copies', rest, audio_seconds).row())
    print(Stage('together, CPU time', cpu, audio_seconds).row())
    print(Stage('pipeline, by the clock', statistics.median(elapsed) / len(samples), audio_seconds).row())
    if options.formats:
        audio = [read_audio(sample.path, features) for sample in evenly(samples, STAGE_SAMPLES)]
        for stage in time_formats(audio, features, options.epochs):
            print(stage.row())
    if options.peer_python:
        paths = [os.path.abspath(sample.path) for sample in samples]
        for stage in time_peer(
            options.peer_python,
            paths,
            batch_size=options.batch_size,
            sample_rate=features.sample_rate,
            repeats=options.epochs,
            audio_seconds=audio_seconds,
        ):
            print(stage.row())
    if options.augment:
        for stage in time_augmented(samples, alphabet, features, data, options):
            print(stage.row())
    if options.feature_cache:
        for stage in time_cache(samples, alphabet, features, data, options):
            print(stage.row())
    slowest, fastest = max(elapsed), min(elapsed)
    print(f'in the repeats: {len(samples) / slowest:,.0f} to {len(samples) / fastest:,.0f} utterances/s by the clock')


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    return exit_status(lambda: measure(options))


if __name__ == '__main__':
    sys.exit(main())
