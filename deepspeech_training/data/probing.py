"""Looking at many audio files at once."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from deepspeech_training import log, storage
from deepspeech_training.audio.reading import audio_info
from deepspeech_training.data.manifest import Sample
from deepspeech_training.data.remembered import AudioFacts, AudioMemory
from deepspeech_training.data.sources import Source, load_source
from deepspeech_training.errors import DataError

THREADS = 16  # they wait for the disk or the network most of the time
FILES_A_TASK = 64


def look_at_audio(
    csv_files: Mapping[str, Sequence[Sample]], folder: str, show_progressbar: bool
) -> dict[str, AudioFacts | str]:
    """Facts of every audio file of these CSV files, or what is wrong with it, by path.

    Files that have not changed since an earlier run that used the same `folder` (size and time of change) are not
    opened. What was found is remembered there, also when the user interrupts.
    """
    memories = {path: AudioMemory(folder, path) for path in csv_files}
    known: dict[str, AudioFacts] = {}
    for memory in memories.values():
        known.update(memory.recall())
    found: dict[str, AudioFacts | str] = {}
    audio = {sample.path: sample.source for samples in csv_files.values() for sample in samples}
    try:
        _look_at_all(audio, known, found, show_progressbar)
    finally:
        for csv, samples in csv_files.items():
            sound = {sample.path: found.get(sample.path, known.get(sample.path)) for sample in samples}
            memories[csv].store({path: facts for path, facts in sound.items() if isinstance(facts, AudioFacts)})
    return found


def _look_at_all(
    audio: Mapping[str, Source | None],
    known: Mapping[str, AudioFacts],
    found: dict[str, AudioFacts | str],
    show_progressbar: bool,
) -> None:
    containers: dict[str, storage.Status] = {}

    def look_at_some(some: Sequence[str]) -> list[AudioFacts | str]:
        return [_look_at(path, audio[path], known.get(path), containers) for path in some]

    paths = list(audio)
    tasks = [paths[start : start + FILES_A_TASK] for start in range(0, len(paths), FILES_A_TASK)]
    with (
        log.progress('Checking audio files', len(paths), enabled=show_progressbar) as bar,
        ThreadPoolExecutor(THREADS, thread_name_prefix='check') as pool,
    ):
        try:
            for task, results in zip(tasks, pool.map(look_at_some, tasks), strict=True):
                found.update(zip(task, results, strict=True))
                bar.advance(len(task))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _look_at(
    path: str, source: Source | None, known: AudioFacts | None, containers: dict[str, storage.Status]
) -> AudioFacts | str:
    """The facts of one file, from `known` where it has not changed, or what is wrong with it."""
    if source is not None:
        return _look_at_source(path, source, known, containers)
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return 'the audio file does not exist'
    except OSError as error:
        return f'cannot be read: {error.strerror}'
    if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
        return 'is not a file'
    if known and (known.size, known.mtime) == (status.st_size, status.st_mtime_ns):
        return known
    try:
        info = audio_info(path)
    except DataError as error:
        return str(error).removeprefix(f'{path}: ')
    return AudioFacts(status.st_size, status.st_mtime_ns, info.frames, info.sample_rate, info.channels)


def _look_at_source(
    path: str, source: Source, known: AudioFacts | None, containers: dict[str, storage.Status]
) -> AudioFacts | str:
    """As `_look_at`; `containers` remembers, for all threads, what was found out about those of several samples."""
    try:
        status = containers.get(source.file) or storage.status(source.file)
        containers[source.file] = status
        if known and (known.size, known.mtime) == status:
            return known
        info = audio_info(path, load_source(path, source))
    except FileNotFoundError:
        return 'the audio file does not exist'
    except OSError as error:
        return f'cannot be read: {error.strerror}'
    except DataError as error:
        return str(error).removeprefix(f'{path}: ')
    return AudioFacts(*status, info.frames, info.sample_rate, info.channels)
