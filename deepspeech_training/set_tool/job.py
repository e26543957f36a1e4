"""All that is done in one run: read, merge, sample, split, convert, write."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from deepspeech_training import log, storage
from deepspeech_training.data.formats import LIST_SUFFIXES, read_data_set, write_data_set
from deepspeech_training.data.manifest import Problem, Sample
from deepspeech_training.data.probing import look_at_audio
from deepspeech_training.data.remembered import memory_folder
from deepspeech_training.data.tar_shards import shards_of
from deepspeech_training.errors import DataError, FlagError
from deepspeech_training.set_tool.conversion import Conversion, ConversionTask, Converted, Converter
from deepspeech_training.set_tool.splitting import Amount, choose_way, pick, split
from deepspeech_training.workers import share_out

ROWS_A_TASK = 32
SHOWN = 20  # of bad rows; the others are counted
CONTAINERS = ('.sdb', '.tar')


@dataclass(frozen=True)
class Job:
    """What is to be done."""

    sources: tuple[str, ...]
    outputs: tuple[str, ...]  # one, or one for each of `parts`
    labeled: bool = True  # transcripts must be there
    skip_bad: bool = False
    sample: Amount | None = None
    parts: tuple[Amount, ...] = ()
    split_by: str = 'auto'
    conversion: Conversion | None = None  # None: audio stays as it is
    seed: int = 0
    overwrite: bool = False
    processes: int = 1
    show_progressbar: bool = False


def check_job(job: Job) -> None:
    """Raises `FlagError` for outputs that cannot be written, or would replace something."""
    known = {os.path.realpath(path) for path in job.sources}
    if len(job.outputs) != max(1, len(job.parts)):
        raise FlagError(f'--output: is given {len(job.outputs)} times; needed is one for each part of --split')
    for path in job.outputs:
        for file in files_of(path):
            if os.path.splitext(file)[1].lower() not in LIST_SUFFIXES:
                raise FlagError(f'--output={path}: its suffix names no format; those are {", ".join(LIST_SUFFIXES)}')
            if os.path.realpath(file) in known:
                raise FlagError(f'--output={path}: is read and written; name another file')
            known.add(os.path.realpath(file))
            if not storage.is_remote(file):
                _check_place(job, path, file)
            elif job.conversion and not is_container(file):
                raise FlagError(f'--output={path}: new audio goes into local folders, or into .tar and .sdb anywhere')


def _check_place(job: Job, path: str, file: str) -> None:
    folder = os.path.dirname(file) or '.'
    if not os.path.isdir(folder):
        raise FlagError(f'--output={path}: the folder {folder} does not exist')
    if not os.access(folder, os.W_OK):
        raise FlagError(f'--output={path}: nothing can be written into {folder}')
    if os.path.isdir(file):
        raise FlagError(f'--output={path}: is a folder; name a file in it')
    if os.path.lexists(file) and not job.overwrite:
        raise FlagError(f'--output={path}: is there already; --overwrite replaces it')
    audio = audio_folder(file)
    if job.conversion and not is_container(file) and os.path.lexists(audio):
        raise FlagError(f'--output={path}: {audio}, where its audio goes, is there already; remove or rename it')


def files_of(path: str) -> list[str]:
    """The files of an output: several for a pattern such as `train-{000..007}.tar`. Raises `FlagError`."""
    if '{' not in path:
        return [path]
    try:
        return shards_of(path) or [path]
    except DataError as error:
        raise FlagError(f'--output={path}: {str(error).removeprefix(f"{path}: ")}') from None


def is_container(path: str) -> bool:
    """Whether the format has the audio inside."""
    return path.lower().endswith(CONTAINERS)


def audio_folder(path: str) -> str:
    """Where new audio of a CSV file or JSON lines goes, as `write_data_set` calls it."""
    return f'{os.path.splitext(path)[0]}-audio'


def run(job: Job) -> list[str]:
    """Does it; returns what was written, in words.

    Raises `DataError` for data that cannot be read or written; outputs that are complete by then stay.
    """
    sources = read_all(job)
    if not job.conversion and any(is_container(file) for path in job.outputs for file in files_of(path)):
        sources = _sound(job, sources)
    samples = list(chain.from_iterable(sources.values()))
    if not samples:
        raise DataError(f'{", ".join(job.sources)}: no utterance can be used')
    if job.sample:
        samples = pick(samples, job.sample, job.seed)
    parts = [samples]
    if job.parts:
        way = choose_way(samples, job.split_by, len(job.parts))
        log.info(f'Split by {way}')
        parts = split(samples, job.parts, way)
    told = []
    for path, part in zip(job.outputs, parts, strict=True):
        with log.progress(f'Writing {path}', len(part), job.show_progressbar) as bar:
            count = write_output(job, path, part, bar)
        told.append(f'{path}: {count} utterances')
    return told


def read_all(job: Job) -> dict[str, list[Sample]]:
    """The samples of each source. Raises `DataError` that names what cannot be read."""
    samples: dict[str, list[Sample]] = {}
    problems: list[Problem] = []
    errors = []
    for path in job.sources:
        try:
            samples[path], bad = read_data_set(path, labeled=job.labeled, folder=memory_folder(''))
        except DataError as error:
            errors.append(str(error))
            continue
        problems += bad
    if errors:
        raise DataError('\n'.join(errors))
    tell_bad(job, list(map(str, problems)))
    return samples


def _sound(job: Job, sources: Mapping[str, Sequence[Sample]]) -> dict[str, list[Sample]]:
    """The samples whose audio can be read: what is inside of a data set is hard to mend. Raises `DataError`."""
    facts = look_at_audio(sources, memory_folder(''), job.show_progressbar)
    wrong = {path: problem for path, problem in facts.items() if isinstance(problem, str)}
    bad = [str(each.problem(wrong[each.path])) for each in chain(*sources.values()) if each.path in wrong]
    tell_bad(job, bad)
    return {source: [each for each in samples if each.path not in wrong] for source, samples in sources.items()}


def tell_bad(job: Job, problems: Sequence[str]) -> None:
    """Warns of rows that are left out. Raises `DataError` instead, where they may not be."""
    if not problems:
        return
    lines = [f'Utterances that cannot be used: {len(problems)}', *(f'  {each}' for each in problems[:SHOWN])]
    if len(problems) > SHOWN:
        lines.append(f'  and {len(problems) - SHOWN} more')
    if not job.skip_bad:
        raise DataError('\n'.join([*lines, 'Correct them, or leave them out with --on_bad_sample skip']))
    log.warn('\n'.join(lines))


def write_output(job: Job, path: str, samples: Sequence[Sample], bar: log.ProgressBar) -> int:
    """Writes one output, of one file or of several shards; returns how many utterances it has."""
    files = files_of(path)
    if len(samples) < len(files):
        raise DataError(f'--output={path}: {len(samples)} utterances are too few for {len(files)} files')
    bounds = [len(samples) * number // len(files) for number in range(len(files) + 1)]
    count = 0
    for file, start, end in zip(files, bounds, bounds[1:], strict=False):
        part = samples[start:end]
        if job.conversion:
            count += _write_converted(job, job.conversion, file, part, start, bar)
        else:
            write_data_set(file, part, bar.advance)
            count += len(part)
    return count


def _write_converted(
    job: Job, conversion: Conversion, path: str, samples: Sequence[Sample], first: int, bar: log.ProgressBar
) -> int:
    """New audio beside `path`, and the data set of it. What is there when something fails is removed."""
    audio = audio_folder(path)
    moved = ''
    unfinished = ''
    try:
        if storage.is_remote(path):
            unfinished = tempfile.mkdtemp()
        else:
            unfinished = f'{audio}.{uuid.uuid4().hex}.tmp'
            os.mkdir(unfinished)
        converted = list(_convert(job, conversion, unfinished, samples, first, bar))
        tell_bad(job, [str(each.sample.problem(each.problem)) for each in converted if each.problem])
        good = [each.sample for each in converted if not each.problem]
        if not is_container(path):
            os.rename(unfinished, audio)
            moved = audio
            good = [replace(sample, path=os.path.join(audio, os.path.basename(sample.path))) for sample in good]
        write_data_set(path, good)
        moved = ''
    except OSError as error:
        raise DataError(f'{error.filename or path}: cannot be written: {error.strerror}') from error
    finally:
        for folder in filter(None, (unfinished, moved)):
            shutil.rmtree(folder, ignore_errors=True)
    return len(good)


def _convert(
    job: Job, conversion: Conversion, folder: str, samples: Sequence[Sample], first: int, bar: log.ProgressBar
) -> Iterator[Converted]:
    starts = range(0, len(samples), ROWS_A_TASK)
    tasks = [ConversionTask(samples[start : start + ROWS_A_TASK], first + start) for start in starts]
    results = share_out(Converter(conversion, folder), tasks, min(job.processes, len(tasks)))
    for task, converted in zip(tasks, results, strict=True):
        bar.advance(len(task.samples))
        yield from chain(converted)
