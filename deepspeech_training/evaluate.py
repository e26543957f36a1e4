"""Testing: transcribes the test sets with a trained model and reports the error rates."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import tensorflow as tf

from deepspeech_training import log
from deepspeech_training.checkpoints import CheckpointStore
from deepspeech_training.config import Config
from deepspeech_training.data.batches import equal_sizes
from deepspeech_training.data.checks import DataSets
from deepspeech_training.data.manifest import Sample
from deepspeech_training.data.pipeline import InputPipeline
from deepspeech_training.decoding import Decoder, decoder_for
from deepspeech_training.decoding.pool import DecodingPool, decoding_pool
from deepspeech_training.evaluation.console import print_report, print_summary
from deepspeech_training.evaluation.reports import write_file, write_report
from deepspeech_training.evaluation.results import Results
from deepspeech_training.evaluation.subject import Subject
from deepspeech_training.evaluation.summary import Summary
from deepspeech_training.evaluation.tables import write_deepspeech_json
from deepspeech_training.graphs import (
    geometry,
    make_pipeline,
    make_session,
    make_tower_fn,
    next_step,
    restore_everywhere,
    utterances,
    with_compute_type,
)
from deepspeech_training.parallel.registry import create_strategy
from deepspeech_training.parallel.strategy import StepOps, StepResult, Strategy
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.metrics import Transcription

SENT_TOGETHER = 1000
"""Transcriptions that a process of a job tells the others at a time."""

Found = tuple[int, Transcription]
"""A transcription, and the line of its sample in the set."""


def evaluate(config: Config, data_sets: DataSets, alphabet: Alphabet, decoder: Decoder | None = None) -> list[Summary]:
    """Transcribes every test set, prints a report of each and writes `--test_output_file` and `--test_report_file`.

    `decoder`: as `config.decoding` describes it, if one is open already; it stays open.
    Returns the summaries of the sets; in a job, only the first process knows them.

    Raises:
      CheckpointError: there is no checkpoint, or it does not fit.
      DataError: an audio file cannot be read any more.
      FlagError: something is asked for that only a GPU can do, and there is none.
      UserError: a file cannot be written; one that was there is not touched.
    """
    with Results(list(data_sets.test)) as results:
        is_chief = transcribe_sets(config, data_sets.test, alphabet, results, decoder)
        if is_chief:
            if len(results.summaries) > 1:
                print_summary(results.overall())
            write_files(config, data_sets.test, results)
        return results.summaries


def transcribe_sets(
    config: Config,
    sets: Mapping[str, Sequence[Sample]],
    alphabet: Alphabet,
    results: Results,
    decoder: Decoder | None = None,
) -> bool:
    """Puts the transcriptions into `results` and prints a report of each set; whether this process does that.

    Raises what `evaluate` does.
    """
    strategy = create_strategy(config.parallel)
    config = with_compute_type(config, strategy)
    samples = [sample for rows in sets.values() for sample in rows]
    opened = decoder or decoder_for(config.decoding, alphabet)
    with (
        tf.Graph().as_default() as graph,
        decoding_pool(config.decoding, alphabet, opened, len(samples) // strategy.world_size, strategy.cores) as pool,
    ):
        pipeline = make_pipeline(config, strategy, samples, alphabet)
        tower_fn = make_tower_fn(config, alphabet.size + 1, training=False, keep_logits=True)
        step = strategy.build_evaluation(pipeline.next_batch, tower_fn)
        store = CheckpointStore(config.checkpoints, geometry(config, alphabet))
        with make_session(strategy) as session:
            restore_everywhere(strategy, store, session, training=False)
            graph.finalize()
            tester = Tester(config, strategy, pipeline, step, session, samples, pool)
            tester.run_all(sets, results)
    if decoder is None:
        opened.close()
    return strategy.is_chief


def write_files(config: Config, sets: Mapping[str, Sequence[Sample]], results: Results) -> None:
    """`--test_output_file` and `--test_report_file`, where they are given. Raises `UserError`."""
    report = config.report
    if report.test_output_file:
        write_file('--test_output_file', report.test_output_file, lambda file: write_deepspeech_json(file, results))
    if report.test_report_file:
        subject = Subject.of(config.checkpoints.load_dir, config.decoding, sets)
        kind = os.path.splitext(report.test_report_file)[1].lower()
        write_report('--test_report_file', kind, report.test_report_file, results, subject)


class Tester:
    """Runs the model over test sets while others decode."""

    def __init__(
        self,
        config: Config,
        strategy: Strategy,
        pipeline: InputPipeline,
        step: StepOps,
        session: tf.compat.v1.Session,
        samples: Sequence[Sample],
        pool: DecodingPool,
    ) -> None:
        self._config = config
        self._strategy = strategy
        self._pipeline = pipeline
        self._step = step
        self._session = session
        self._samples = samples
        self._pool = pool

    def run_all(self, sets: Mapping[str, Sequence[Sample]], results: Results) -> None:
        """Tests one set after the other, as they follow each other in the list of samples, and reports."""
        start = 0
        for number, (name, rows) in enumerate(sets.items()):
            for line, transcription in self.run(name, start, len(rows)):
                if self._strategy.is_chief:
                    results.add(number, line, transcription)
            start += len(rows)
            if self._strategy.is_chief:
                print_report(results, number, self._config.report.report_count)

    def run(self, name: str, start: int, count: int) -> Iterator[Found]:
        """The transcriptions of `count` samples from `start` on, in any order; each process decodes its part."""
        order = np.arange(start, start + count, dtype=np.int32)
        shard = self._strategy.shard(order, equal_sizes(count, self._config.data.test_batch_size), training=False)
        self._pipeline.start(self._session, shard.rows, shard.sizes, shard.fillers)
        show = self._config.report.show_progressbar and self._strategy.is_chief
        with log.progress(f'Testing | {name}', len(shard.rows), enabled=show) as bar:

            def own() -> Iterator[Found]:
                for (index, loss), text in self._pool.decode_all(self._utterances()):
                    sample = self._samples[index]
                    bar.advance()
                    yield sample.line, Transcription.of(sample.path, sample.transcript, text, loss)

            yield from own() if self._strategy.world_size == 1 else _exchanged(self._strategy, own())

    def _next_step(self) -> StepResult | None:
        return next_step(self._strategy, self._session, self._pipeline, self._step, size_flag='--test_batch_size')

    def _utterances(self) -> Iterator[tuple[tuple[int, float], np.ndarray]]:
        """Position and loss of one utterance after the other, with its logits [frames, n_output]."""
        while (result := self._next_step()) is not None:
            yield from utterances(result)


def _exchanged(strategy: Strategy, own: Iterator[Found]) -> Iterator[Found]:
    """Those of all processes, when each is done with its own: until then they are on disk."""
    with tempfile.TemporaryFile() as file:
        for found in own:
            pickle.dump(found, file)
        end = file.tell()
        file.seek(0)
        kept = iter(lambda: pickle.load(file) if file.tell() < end else None, None)
        while any(parts := strategy.all_gather(list(islice(kept, SENT_TOGETHER)))):
            for part in parts:
                yield from part
