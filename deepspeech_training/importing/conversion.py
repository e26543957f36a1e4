"""Audio of a corpus as 16-bit WAV files, made by several processes."""

from __future__ import annotations

import io
import os
import wave
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from deepspeech_training.audio.reading import audio_info, read_audio
from deepspeech_training.config import FeatureConfig
from deepspeech_training.errors import DataError
from deepspeech_training.workers import share_out

FILES_A_TASK = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """What becomes one file: seconds `start` to `end` of its recording, None for the recording's end."""

    output: str  # '' where the audio stays as it is and is only looked at
    start: float = 0.0
    end: float | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """An audio file and what is to be made of it."""

    audio: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Converted:
    """What became of a piece: the length of the audio, or why there is none."""

    path: str
    size: int = 0  # bytes
    frames: int = 0  # samples of each channel
    sample_rate: int = 0  # Hz
    problem: str = ''
    was_there: bool = False  # from an earlier import


def convert_all(recordings: Sequence[Recording], features: FeatureConfig, processes: int) -> Iterator[list[Converted]]:
    """Converts the audio of `recordings`: for some of them at a time, what became of their pieces.

    `features` say at which rate, and which channel. A file is written under another name and gets its own, and the
    recording's time of change, when it is complete; one that is sound and has that time is not made again. What a
    process had that was killed counts as unusable.

    Raises `DataError` where a file cannot be written.
    """

    def lost(task: list[Recording], end: str) -> list[Converted]:
        paths = [piece.output or recording.audio for recording in task for piece in recording.pieces]
        return [Converted(path, problem=end) for path in paths]

    yield from share_out(partial(convert_some, features=features), _tasks(recordings), processes, lost)


def _tasks(recordings: Iterable[Recording]) -> Iterator[list[Recording]]:
    task: list[Recording] = []
    pieces = 0
    for recording in recordings:
        task.append(recording)
        pieces += len(recording.pieces)
        if pieces >= FILES_A_TASK:
            yield task
            task, pieces = [], 0
    if task:
        yield task


def convert_some(recordings: Sequence[Recording], features: FeatureConfig) -> list[Converted]:
    """What becomes of the pieces of each recording. Raises `DataError` where a file cannot be written."""
    return [converted for recording in recordings for converted in convert(recording, features)]


def convert(recording: Recording, features: FeatureConfig) -> list[Converted]:
    """What becomes of the pieces of a recording. Raises `DataError` where a file cannot be written."""
    results: list[Converted] = []
    samples: npt.NDArray[np.float32] | None = None
    problem = ''
    changed = _time_of_change(recording.audio)
    for piece in recording.pieces:
        if not piece.output:
            results.append(_look_at(recording.audio, recording.audio))
            continue
        there = _existing(piece.output, changed, features.sample_rate)
        if there is None and samples is None and not problem:
            try:
                audio_info(recording.audio)  # tells of files that are cut off, too
                samples = read_audio(recording.audio, features)
            except DataError as error:
                problem = str(error).removeprefix(f'{recording.audio}: ')
        if there is not None:
            results.append(there)
        elif samples is None:
            results.append(Converted(piece.output, problem=problem))
        else:
            results.append(_write_piece(piece, samples, features.sample_rate, changed))
    return results


def _time_of_change(path: str) -> int:
    """Nanoseconds; 0 for a file that is not there, which is told when it is read."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _look_at(path: str, audio: str) -> Converted:
    try:
        info = audio_info(audio)
        return Converted(path, os.path.getsize(audio), info.frames, info.sample_rate)
    except DataError as error:
        return Converted(path, problem=str(error).removeprefix(f'{audio}: '))


def _existing(path: str, changed: int, sample_rate: int) -> Converted | None:
    """What an earlier import made of the same recording, if it is whole and has the wanted rate."""
    if _time_of_change(path) // 1000 != changed // 1000:  # some file systems know microseconds only
        return None
    found = _look_at(path, path)
    if found.problem or found.sample_rate != sample_rate:
        return None
    return Converted(path, found.size, found.frames, found.sample_rate, was_there=True)


def _write_piece(piece: Piece, samples: npt.NDArray[np.float32], sample_rate: int, changed: int) -> Converted:
    first = round(piece.start * sample_rate)
    last = len(samples) if piece.end is None else round(piece.end * sample_rate)
    cut = samples[max(0, first) : last]
    if not len(cut):
        length = len(samples) / sample_rate
        return Converted(piece.output, problem=f'its recording of {length:.2f} s has nothing at {piece.start:.2f} s')
    content = wav_bytes(cut, sample_rate)
    part = os.path.join(os.path.dirname(piece.output), f'.{os.path.basename(piece.output)}.part')
    try:
        os.makedirs(os.path.dirname(piece.output), exist_ok=True)
        with open(part, 'wb') as file:
            file.write(content)
        os.utime(part, ns=(changed, changed))
        os.replace(part, piece.output)
    except OSError as error:
        raise DataError(f'{piece.output}: cannot be written: {error.strerror}') from error
    return Converted(piece.output, len(content), len(cut), sample_rate)


def wav_bytes(samples: npt.NDArray[np.float32], sample_rate: int) -> bytes:
    """A WAV file, 16 bits, mono, of samples with full scale 1."""
    values = np.clip(np.rint(samples * np.float32(32768)), -32768, 32767).astype('<i2')
    buffer = io.BytesIO()
    with wave.open(buffer, 'wb') as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(values.tobytes())
    return buffer.getvalue()
