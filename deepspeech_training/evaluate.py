"""Testing: transcribes the test sets with a trained model and reports the error rates."""

from __future__ import annotations

import contextlib
import json
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from deepspeech_training import log
from deepspeech_training.checkpoints import CheckpointStore
from deepspeech_training.config import Config
from deepspeech_training.data.batches import equal_sizes
from deepspeech_training.data.checks import DataSets
from deepspeech_training.data.manifest import Sample
from deepspeech_training.data.pipeline import InputPipeline
from deepspeech_training.decoding import decoder_for, decoder_threads
from deepspeech_training.errors import UserError
from deepspeech_training.graphs import (
    geometry,
    make_pipeline,
    make_session,
    make_tower_fn,
    next_step,
    restore_everywhere,
    with_compute_type,
)
from deepspeech_training.parallel.registry import create_strategy
from deepspeech_training.parallel.strategy import StepOps, StepResult, Strategy
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.metrics import Transcription, error_rates

WAITING_PER_THREAD = 8
"""Utterances that may wait for a decoder thread before the model pauses: memory stays flat."""


def evaluate(config: Config, data_sets: DataSets, alphabet: Alphabet) -> list[Transcription]:
    """Transcribes every test set, prints a report of each and writes `--test_output_file`.

    Raises:
      CheckpointError: there is no checkpoint, or it does not fit.
      DataError: an audio file cannot be read any more.
      FlagError: something is asked for that only a GPU can do, and there is none.
    """
    strategy = create_strategy(config.parallel)
    config = with_compute_type(config, strategy)
    samples = [sample for rows in data_sets.test.values() for sample in rows]
    with tf.Graph().as_default() as graph:
        pipeline = make_pipeline(config, strategy, samples, alphabet)
        tower_fn = make_tower_fn(config, alphabet.size + 1, training=False, keep_logits=True)
        step = strategy.build_evaluation(pipeline.next_batch, tower_fn)
        store = CheckpointStore(config.checkpoints, geometry(config, alphabet))
        with make_session(strategy) as session:
            restore_everywhere(strategy, store, session, training=False)
            graph.finalize()
            tester = Tester(config, strategy, pipeline, step, session, samples, alphabet)
            try:
                results = tester.run_all(data_sets.test)
            finally:
                tester.close()
    if config.report.test_output_file and strategy.is_chief:
        write_json(config.report.test_output_file, results)
    return results


class Tester:
    """Runs the model over test sets and decodes in threads of its own meanwhile."""

    def __init__(
        self,
        config: Config,
        strategy: Strategy,
        pipeline: InputPipeline,
        step: StepOps,
        session: tf.compat.v1.Session,
        samples: Sequence[Sample],
        alphabet: Alphabet,
    ) -> None:
        self._config = config
        self._strategy = strategy
        self._pipeline = pipeline
        self._step = step
        self._session = session
        self._samples = samples
        self._decoder = decoder_for(config.decoding, alphabet)
        self._pool = ThreadPoolExecutor(decoder_threads(), thread_name_prefix='decoder')

    def run_all(self, sets: Mapping[str, Sequence[Sample]]) -> list[Transcription]:
        """Tests one set after the other, as they follow each other in the list of samples, and reports."""
        results: list[Transcription] = []
        for name, rows in sets.items():
            start = len(results)
            transcriptions = self.run(name, np.arange(start, start + len(rows), dtype=np.int32))
            if self._strategy.is_chief:
                print_report(name, transcriptions, self._config.report.report_count)
            results += transcriptions
        return results

    def run(self, name: str, order: np.ndarray) -> list[Transcription]:
        """The transcriptions of the samples at the positions `order`, in that order; each process decodes its part."""
        batch_size = self._config.data.test_batch_size
        shard = self._strategy.shard(order, equal_sizes(len(order), batch_size), training=False)
        self._pipeline.start(self._session, shard.rows, shard.sizes, shard.fillers)
        waiting: deque[Future[tuple[int, Transcription]]] = deque()
        done: dict[int, Transcription] = {}
        show = self._config.report.show_progressbar and self._strategy.is_chief
        with log.progress(f'Testing | {name}', len(shard.rows), enabled=show) as bar:

            def take() -> None:
                index, transcription = waiting.popleft().result()
                done[index] = transcription
                bar.advance()

            for index, logits, loss in self._utterances():
                waiting.append(self._pool.submit(self._transcribe, index, logits, loss))
                while len(waiting) > WAITING_PER_THREAD * decoder_threads():
                    take()
            while waiting:
                take()
        for others in self._strategy.all_gather(done):
            done.update(others)
        return [done[index] for index in order]

    def _next_step(self) -> StepResult | None:
        return next_step(self._strategy, self._session, self._pipeline, self._step, size_flag='--test_batch_size')

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown()
        self._decoder.close()

    def _transcribe(self, index: int, logits: np.ndarray, loss: float) -> tuple[int, Transcription]:
        sample = self._samples[index]
        return index, Transcription.of(sample.path, sample.transcript, self._decoder.decode(logits), loss)

    def _utterances(self) -> Iterator[tuple[int, np.ndarray, float]]:
        """Position, logits [frames, n_output] and loss of one utterance after the other."""
        while (result := self._next_step()) is not None:
            yield from _split(result)


def _split(result: StepResult) -> Iterator[tuple[int, np.ndarray, float]]:
    for tower in result.per_tower:
        for row, index in enumerate(tower['indices']):
            if tower['weights'][row] > 0:
                length = tower['lengths'][row]
                # A copy, so that the batch can be freed before all of it is decoded.
                yield int(index), tower['logits'][:length, row].copy(), float(tower['losses'][row])


def print_report(name: str, transcriptions: Sequence[Transcription], report_count: int) -> None:
    """Prints error rates over the whole set and its best, median and worst samples."""
    wer, cer, loss = error_rates(transcriptions)
    print(f'Test on {name} - WER: {wer:f}, CER: {cer:f}, loss: {loss:f}')
    if not report_count:
        return
    # DeepSpeech's order: by loss first, so that samples of equal WER are shown worst loss first.
    ranked = sorted(sorted(transcriptions, key=lambda t: -t.loss), key=lambda t: t.wer)
    count = min(report_count, len(ranked))
    middle = max(0, (len(ranked) - count) // 2)
    for title, chosen in (
        ('Best WER', ranked[:count]),
        ('Median WER', ranked[middle : middle + count]),
        ('Worst WER', ranked[len(ranked) - count :]),
    ):
        print(f'{title}:\n' + '-' * 80)
        for t in chosen:
            print(f'WER: {t.wer:f}, CER: {t.cer:f}, loss: {t.loss:f}')
            print(f' - wav: {t.wav_filename}\n - src: "{t.src}"\n - res: "{t.res}"\n' + '-' * 80)


def write_json(path: str, transcriptions: Sequence[Transcription]) -> None:
    """Writes the transcriptions, worst first, as UTF-8 JSON with DeepSpeech's field names.

    Raises:
      UserError: the file cannot be written; one that was there is not touched.
    """
    rows = [
        {
            'wav_filename': t.wav_filename,
            'src': t.src,
            'res': t.res,
            'loss': t.loss,
            'char_distance': t.char_distance,
            'char_length': t.char_length,
            'word_distance': t.word_distance,
            'word_length': t.word_length,
            'cer': t.cer,
            'wer': t.wer,
        }
        for t in sorted(transcriptions, key=lambda t: (-t.wer, -t.loss))
    ]
    try:
        os.makedirs(os.path.dirname(path) or os.curdir, exist_ok=True)
        with open(f'{path}.tmp', 'w', encoding='utf-8') as file:
            json.dump(rows, file, ensure_ascii=False, indent=2)
        os.replace(f'{path}.tmp', path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(f'{path}.tmp')
        raise UserError(f'--test_output_file: cannot write {path}: {error}') from None
