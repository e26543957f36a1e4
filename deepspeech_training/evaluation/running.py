"""Any model that `runtimes` opens, on test sets: one utterance after the other, decoded by others meanwhile."""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from deepspeech_training import log
from deepspeech_training.audio.reading import read_audio
from deepspeech_training.config import FeatureConfig
from deepspeech_training.data.formats import read_data_set
from deepspeech_training.data.manifest import Sample
from deepspeech_training.data.sources import load_source
from deepspeech_training.decoding.pool import DecodingPool
from deepspeech_training.errors import DataError, UserError
from deepspeech_training.evaluation.results import Results
from deepspeech_training.runtimes import Runtime, open_model
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.metrics import Transcription

READ_AHEAD = 8  # recordings
SHOWN = 20  # rows that cannot be used; the rest is counted

Audio = npt.NDArray[np.float32]


Numbered = tuple[int, Sample]
"""A sample, and the number of its set."""


def read_sets(paths: Sequence[str], alphabet: Alphabet, limit: int = 0) -> dict[str, list[Sample]]:
    """The samples of each data set, the first `limit` of them if not 0, as the alphabet spells them.

    Characters that it does not have stay, and count as errors: the model cannot write them.
    Raises `DataError` that names the rows that cannot be read, and for a set without any.
    """
    sets = {}
    problems: list[str] = []
    for path in dict.fromkeys(paths):
        samples, wrong = read_data_set(path)
        problems += map(str, wrong)
        samples = samples[: limit or None]
        sets[path] = [replace(sample, transcript=alphabet.normalize(sample.transcript)) for sample in samples]
        _tell_unknown(path, sets[path], alphabet)
    if problems:
        more = [f'and {len(problems) - SHOWN} more'] if len(problems) > SHOWN else []
        raise DataError('\n'.join([f'{len(problems)} rows cannot be used:', *problems[:SHOWN], *more]))
    return sets


def _tell_unknown(path: str, samples: Iterable[Sample], alphabet: Alphabet) -> None:
    unknown = {character for sample in samples for character in alphabet.unknown(sample.transcript)}
    if unknown:
        names = ', '.join(map(repr, sorted(unknown)[:SHOWN]))
        log.warn(f'{path}: the model cannot write all that is in the transcripts, which counts as errors: {names}')


def open_chosen_model(args: argparse.Namespace, features: FeatureConfig) -> Runtime:
    """The model that a tool's arguments name; `features` are for one that does not say its own. Raises `UserError`."""
    with log.native_messages_held(UserError):
        return open_model(
            args.model,
            threads=args.threads,
            alphabet_path=args.alphabet_config_path,
            features=features,
            load=args.load_evaluate,
        )


def run_model(
    model: Runtime,
    sets: Mapping[str, Sequence[Sample]],
    pool: DecodingPool,
    results: Results,
    advance: Callable[[], None],
    channel: int = 0,
) -> int:
    """Puts a transcription of each utterance into `results`; says which cannot be read, and returns their number.

    `channel`: of recordings with several, counted from 1; 0: their mean.
    """
    failed = 0

    def fail() -> None:
        nonlocal failed
        failed += 1
        advance()

    for (number, sample), text in pool.decode_all(model_outputs(model, sets, fail, channel)):
        one = Transcription.of(sample.path, sample.transcript, text, float('nan'))
        results.add(number, sample.line, one)
        advance()
    return failed


def model_outputs(
    model: Runtime, sets: Mapping[str, Sequence[Sample]], fail: Callable[[], None], channel: int = 0
) -> Iterator[tuple[Numbered, np.ndarray]]:
    """Log-probabilities `[frames, n_output]` of the utterances.

    Those that cannot be read are named and left out; `fail` is called for each of them.
    """
    features = replace(model.info.features, normalize_sample_rate=True, channel=channel)
    for numbered, samples in _read_ahead(_numbered(sets), features):
        if isinstance(samples, DataError):
            sample = numbered[1]
            log.error(str(sample.problem(str(samples).removeprefix(f'{sample.path}: '))))
            fail()
        else:
            yield numbered, model.log_probabilities(samples)


def _numbered(sets: Mapping[str, Sequence[Sample]]) -> Iterator[Numbered]:
    for number, samples in enumerate(sets.values()):
        for sample in samples:
            yield number, sample


def _read_ahead(samples: Iterable[Numbered], features: FeatureConfig) -> Iterator[tuple[Numbered, Audio | DataError]]:
    """The audio of each, or why there is none, read by a thread while the model computes."""
    with ThreadPoolExecutor(1, 'reader') as reader:
        waiting: deque[tuple[Numbered, Future[Audio | DataError]]] = deque()
        for numbered in samples:
            waiting.append((numbered, reader.submit(_read, numbered[1], features)))
            if len(waiting) > READ_AHEAD:
                first, future = waiting.popleft()
                yield first, future.result()
        for first, future in waiting:
            yield first, future.result()


def _read(sample: Sample, features: FeatureConfig) -> Audio | DataError:
    path = sample.path
    try:
        content = load_source(path, sample.source) if sample.source else None
        samples = read_audio(path, features, content=content)
    except DataError as error:
        return error
    if not features.frames(len(samples)):
        milliseconds = 1000 * len(samples) / features.sample_rate
        return DataError(f'{path}: is {milliseconds:.4g} ms long, shorter than one window of {features.window_ms} ms')
    return samples
