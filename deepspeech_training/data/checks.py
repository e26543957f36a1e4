"""Looking at all data before the first step, so that no run ends after hours because of one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from deepspeech_training import log
from deepspeech_training.audio.reading import resampled_length, wrong_channel, wrong_rate
from deepspeech_training.config import DataConfig, FeatureConfig
from deepspeech_training.data.findings import Findings, tell_skipped
from deepspeech_training.data.formats import read_data_set
from deepspeech_training.data.manifest import Sample
from deepspeech_training.data.order import sort_samples, sorted_places
from deepspeech_training.data.probing import look_at_audio
from deepspeech_training.data.remembered import AudioFacts, memory_folder, one_at_a_time
from deepspeech_training.data.turns import Turns, places_of
from deepspeech_training.errors import DataError
from deepspeech_training.text.alphabet import Alphabet


@dataclass(frozen=True)
class DataSets:
    """The samples of a run, checked, sorted, reversed and limited as the flags say."""

    train: list[Sample]  # of all train files together
    dev: dict[str, list[Sample]]  # by CSV file, in the order of the flag
    test: dict[str, list[Sample]]
    metrics: dict[str, list[Sample]]
    turns: Turns | None = None  # which of `train` an epoch takes, where files have weights; None for all


def check_data(
    data: DataConfig, features: FeatureConfig, alphabet: Alphabet, *, save_dir: str, show_progressbar: bool
) -> DataSets:
    """Reads the data sets of a run and looks at every row and every audio file in them.

    What was found in the audio files is remembered (in `save_dir`, or without one in the user's folder for caches), so
    that only files that are new or have changed are opened the next time. Several processes that check the same files
    at the same time, on one host or with one `save_dir`, open each once. With `data.on_bad_sample` 'skip', rows that
    cannot be used are left out and listed in `skipped_samples.csv` in `save_dir`.

    Raises `DataError` that names all CSV files that cannot be used, all bad rows unless they are skipped (the first 20
    and how many more), and all characters outside the alphabet with their code points, counts and first places.
    """
    csv_files = list(dict.fromkeys([*data.train_files, *data.dev_files, *data.test_files, *data.metrics_files]))
    findings = Findings(csv_files, alphabet)
    folder = memory_folder(save_dir)
    with one_at_a_time(folder, csv_files):
        rows = _read_all(csv_files, alphabet, findings, folder)
        facts = look_at_audio(rows, folder, show_progressbar)
        usable = {
            path: [
                _with_frames(sample, facts[sample.path], features)
                for sample in samples
                if _is_usable(sample, facts[sample.path], features, alphabet, findings)
            ]
            for path, samples in rows.items()
        }
        _judge(data, findings, usable, save_dir)
    _tell_other_sizes(usable, facts)
    _tell_other_durations(usable, facts)

    def each(paths: Sequence[str], reverse: bool, limit: int) -> dict[str, list[Sample]]:
        return {path: sort_samples(usable[path], reverse, limit) for path in paths}

    train, turns = _training_samples(data, usable)
    return DataSets(
        train=train,
        dev=each(data.dev_files, data.reverse_dev, data.limit_dev),
        test=each(data.test_files, data.reverse_test, data.limit_test),
        metrics=each(data.metrics_files, data.reverse_dev, data.limit_dev),  # as DeepSpeech does
        turns=turns,
    )


def _training_samples(data: DataConfig, usable: Mapping[str, Sequence[Sample]]) -> tuple[list[Sample], Turns | None]:
    """Sorted, limited, and then as often as their files' weights say."""
    samples = [sample for path in data.train_files for sample in usable[path]]
    places = sorted_places(samples, data.reverse_train, data.limit_train, by_frames=data.bucket_batches)
    if all(weight == 1 for weight in data.train_weights):
        return [samples[place] for place in places], None
    sets = np.repeat(np.arange(len(data.train_files)), [len(usable[path]) for path in data.train_files])
    rows, turns = places_of(data.train_weights, sets[places])
    return [samples[places[row]] for row in rows], turns


def feature_frames(facts: AudioFacts, features: FeatureConfig) -> int:
    """Number of MFCC frames of an audio file, resampled to the model's sample rate."""
    return features.frames(resampled_length(facts.frames, facts.sample_rate, features.sample_rate))


def audio_problem(facts: AudioFacts, features: FeatureConfig) -> str:
    """Why no features can be made of an audio file; empty where they can."""
    if facts.sample_rate != features.sample_rate and not features.normalize_sample_rate:
        return wrong_rate(facts.sample_rate, features.sample_rate)
    if features.channel > facts.channels:
        return wrong_channel(facts.channels, features.channel)
    if not facts.frames:
        return 'the audio file has no samples'
    if not feature_frames(facts, features):
        milliseconds = 1000 * facts.frames / facts.sample_rate
        return f'is {milliseconds:.4g} ms long, shorter than one window of {features.window_ms} ms'
    return ''


def length_problem(transcript: str, facts: AudioFacts, features: FeatureConfig, alphabet: Alphabet) -> str:
    """Why CTC cannot align a transcript with its audio; empty where it can.

    Each label takes a frame, and two equal ones in a row take one for the blank between them (Graves et al.,
    "Connectionist Temporal Classification", 2006). The characters of `transcript` must be in the alphabet.
    """
    frames = feature_frames(facts, features)
    # Enough even if all labels are alike: spares nearly all the rest.
    if frames >= 2 * len(transcript) * alphabet.labels_per_character:
        return ''
    labels = alphabet.encode(transcript)
    pairs = sum(first == second for first, second in pairwise(labels))
    if frames >= len(labels) + pairs:
        return ''
    return (
        f'the transcript is too long for its audio: {len(labels)} {alphabet.unit} and {pairs} repeated pairs need '
        f'{len(labels) + pairs} frames, {facts.frames / facts.sample_rate:.2f} s of audio have {frames}'
    )


def _read_all(csv_files: Sequence[str], alphabet: Alphabet, findings: Findings, folder: str) -> dict[str, list[Sample]]:
    """The readable rows of each readable data set. What is wrong with the others goes into `findings`.

    `folder`: where to remember what is where in tar files.

    From here on their transcripts have the Unicode normal form of the alphabet.
    """
    rows = {}
    for path in csv_files:
        try:
            rows[path], problems = read_data_set(path, folder=folder)
        except DataError as error:
            findings.csv_errors.append(str(error))
            continue
        rows[path] = [_normalized(sample, alphabet) for sample in rows[path]]
        findings.row_count += len(rows[path]) + len(problems)
        for problem in problems:
            findings.add(problem)
    if findings.csv_errors and rows:  # said at once, since the rest may take a while
        log.warn(f'{findings.csv_errors[0]}. Looking at the rest, to name every problem')
    return rows


def _normalized(sample: Sample, alphabet: Alphabet) -> Sample:
    transcript = alphabet.normalize(sample.transcript)
    return sample if transcript == sample.transcript else replace(sample, transcript=transcript)


def _is_usable(
    sample: Sample, facts: AudioFacts | str, features: FeatureConfig, alphabet: Alphabet, findings: Findings
) -> bool:
    """Whether a row can be used. What is wrong with it goes into `findings`."""
    unknown = alphabet.unknown(sample.transcript)
    if unknown:
        findings.add_characters(sample, unknown)
    messages = [] if sample.transcript.strip() else ['the transcript is empty']
    audio = facts if isinstance(facts, str) else audio_problem(facts, features)
    if audio:
        messages.append(audio)
    elif not (isinstance(facts, str) or unknown) and (
        too_long := length_problem(sample.transcript, facts, features, alphabet)
    ):
        messages.append(too_long)
    for message in messages:
        findings.add(sample.problem(message))
    return not (unknown or messages)


def _with_frames(sample: Sample, facts: AudioFacts | str, features: FeatureConfig) -> Sample:
    """A usable sample that knows how long it is, and how large."""
    assert isinstance(facts, AudioFacts)
    size = sample.size or facts.size if sample.source else sample.size
    return replace(sample, size=size, frames=feature_frames(facts, features))


def _judge(data: DataConfig, findings: Findings, usable: Mapping[str, Sequence[Sample]], save_dir: str) -> None:
    """Raises `DataError`, or tells what is skipped."""
    bad = findings.bad_rows()
    if data.on_bad_sample != 'skip':
        if bad or findings.csv_errors:
            raise DataError(findings.report())
        return
    tell_skipped(findings, save_dir)
    for path, samples in usable.items():
        if not samples:
            first = next(problem for problem in bad if problem.csv == path)
            findings.csv_errors.append(f'{path}: has no row that can be used. The first: {first}')
    if findings.csv_errors:
        raise DataError(findings.csv_report())


def _tell_other_sizes(usable: Mapping[str, Sequence[Sample]], facts: Mapping[str, AudioFacts | str]) -> None:
    """Files are often converted after the CSV was written: harmless, but it is by these sizes that they are sorted."""
    other = []
    for samples in usable.values():
        for sample in samples:
            found = facts[sample.path]
            if sample.source and (sample.source.is_inside or sample.source.duration is not None):
                continue  # the size is that of what contains it
            if isinstance(found, AudioFacts) and found.size != sample.size:
                other.append((sample, found.size))
    if other:
        sample, size = other[0]
        log.info(
            f'{len(other)} audio files have another size than wav_filesize says, by which they are sorted. The first: '
            f'{sample.path}: {size} bytes, and {sample.size} by {sample.csv}:{sample.line}'
        )


def _tell_other_durations(usable: Mapping[str, Sequence[Sample]], facts: Mapping[str, AudioFacts | str]) -> None:
    """Other programs may take less of a file than there is, and the transcript be of that part only."""
    other = []
    for samples in usable.values():
        for sample in samples:
            found = facts[sample.path]
            if sample.seconds and isinstance(found, AudioFacts):
                seconds = found.frames / found.sample_rate
                if abs(seconds - sample.seconds) > 0.1 + 0.01 * seconds:
                    other.append((sample, seconds))
    if other:
        sample, seconds = other[0]
        log.warn(
            f'{len(other)} audio files are not as long as their duration says, and are used whole; with an offset '
            f'(0 for the beginning), duration is what is used. The first: {sample.path}: {seconds:.2f} s, and '
            f'{sample.seconds:g} s by {sample.place}'
        )
