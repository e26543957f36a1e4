"""Data sets as files, in each of the formats that can be read."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import tarfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import soundfile

from deepspeech_training import storage
from deepspeech_training.audio.reading import audio_info
from deepspeech_training.data.json_lines import AUDIO_KEY, DURATION_KEY, OFFSET_KEY, SPEAKER_KEYS, TEXT_KEY
from deepspeech_training.data.manifest import (
    NAME_COLUMN,
    SIZE_COLUMN,
    SPEAKER_COLUMNS,
    TRANSCRIPT_COLUMN,
    Sample,
)
from deepspeech_training.data.sample_database import LONG, MAGIC, SHORT
from deepspeech_training.data.sources import load_source
from deepspeech_training.errors import DataError

SUFFIXES = {'WAV': '.wav', 'WAVEX': '.wav', 'FLAC': '.flac', 'OGG': '.ogg', 'MP3': '.mp3'}
"""Of audio in a tar file, by libsndfile's name of the format; what has another one becomes a WAV file."""


class ExtractedAudio:
    """A new folder for audio that is no file of its own, made when the first is written; gone unless it is kept."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._unfinished = f'{folder}.{uuid.uuid4().hex}.tmp'
        self._count = 0

    def __enter__(self) -> ExtractedAudio:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._unfinished, ignore_errors=True)

    def add(self, sample: Sample) -> tuple[str, int]:
        """Writes audio; returns the path that it will have, and bytes. Raises `OSError` and `DataError`."""
        if not self._count:
            if storage.is_remote(self.folder):
                raise DataError(f'{self.folder}: audio is taken out of containers into local folders only')
            if os.path.lexists(self.folder):
                raise DataError(f'{self.folder}: is there already; audio is to be written there. Remove or rename it')
            os.makedirs(self._unfinished)
        self._count += 1
        suffix, content = _suffix_and_content(sample)
        name = f'{self._count:06d}{suffix}'
        with open(os.path.join(self._unfinished, name), 'xb') as file:
            file.write(content)
        return os.path.join(self.folder, name), len(content)

    def keep(self) -> None:
        """Everything is written. Raises `OSError`."""
        if self._count:
            os.rename(self._unfinished, self.folder)


@dataclass(frozen=True)
class Written:
    """What is to be written."""

    samples: Sequence[Sample]
    folder: str  # of the data set, as `storage.folder_of` gives it
    extracted: ExtractedAudio
    advance: Callable[[], None]

    def __iter__(self) -> Iterator[Sample]:
        for sample in self.samples:
            yield sample
            self.advance()

    @property
    def have_speakers(self) -> bool:
        return any(sample.speaker for sample in self.samples)

    def name(self, path: str) -> str:
        """How the data set names a file: relative to its folder where it is in it."""
        if storage.is_remote(path) or storage.is_remote(self.folder):
            return path.removeprefix(self.folder) if storage.is_remote(path) else os.path.abspath(path)
        inside = os.path.relpath(path, self.folder or os.curdir)
        return os.path.abspath(path) if inside.startswith(os.pardir + os.sep) else inside

    def file_of(self, sample: Sample) -> tuple[str, int]:
        """The path of a sample's audio, a new one where it is no file of its own, and bytes."""
        source = sample.source
        if source is not None and (source.is_inside or source.duration is not None):
            return self.extracted.add(sample)
        return sample.path, sample.size


def content_of(sample: Sample) -> bytes:
    """The bytes of a sample's audio file. Raises `DataError`."""
    if sample.source is not None:
        return load_source(sample.path, sample.source)
    try:
        return storage.read(sample.path)
    except OSError as error:
        raise DataError(f'{sample.path}: cannot be read: {error.strerror}') from error


def write_csv(path: str, written: Written) -> None:
    """Raises `OSError` and `DataError`, as all that follow."""
    header = [NAME_COLUMN, SIZE_COLUMN, TRANSCRIPT_COLUMN, *SPEAKER_COLUMNS[:1]]
    columns = header if written.have_speakers else header[:-1]
    with open(path, 'w', encoding='utf-8', newline='') as file:
        writer = csv.writer(file, lineterminator='\n')
        writer.writerow(columns)
        for sample in written:
            audio, size = written.file_of(sample)
            row = [written.name(audio), size, sample.transcript, sample.speaker]
            writer.writerow(row[: len(columns)])


def write_json_lines(path: str, written: Written) -> None:
    """Segments of longer recordings stay such."""
    with open(path, 'w', encoding='utf-8') as file:
        for sample in written:
            source = sample.source
            if source is not None and source.duration is not None:
                row = {AUDIO_KEY: written.name(source.file), OFFSET_KEY: source.offset, DURATION_KEY: source.duration}
            else:
                content = None if source is None else content_of(sample)
                seconds = audio_info(sample.path, content).duration
                row = {AUDIO_KEY: written.name(written.file_of(sample)[0]), DURATION_KEY: round(seconds, 6)}
            row[TEXT_KEY] = sample.transcript
            if sample.speaker:
                row[SPEAKER_KEYS[0]] = sample.speaker
            file.write(json.dumps(row, ensure_ascii=False) + '\n')


def write_tar(path: str, written: Written) -> None:
    """With KEY.json in the place of KEY.txt where the speaker is known."""
    width = len(str(len(written.samples)))
    with tarfile.open(path, 'w') as archive:
        for number, sample in enumerate(written, start=1):
            stem = os.path.splitext(os.path.basename(sample.path))[0]
            key = f'{number:0{width}}_' + re.sub(r'[^\w-]+', '_', stem)[-60:]
            suffix, content = _suffix_and_content(sample)
            _add(archive, key + suffix, content)
            if sample.speaker:
                row = {TEXT_KEY: sample.transcript, SPEAKER_KEYS[0]: sample.speaker}
                _add(archive, f'{key}.json', json.dumps(row, ensure_ascii=False).encode())
            else:
                _add(archive, f'{key}.txt', sample.transcript.encode())


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def write_sample_database(path: str, written: Written) -> None:
    """As DeepSpeech's own tools write and read them, with a column more where speakers are known."""
    contents = [('speech', 'audio/wav'), ('transcript', 'text/plain'), ('speaker', 'text/plain')]
    columns = contents if written.have_speakers else contents[:-1]
    meta = json.dumps({'schema': [{'content': name, 'mime-type': kind} for name, kind in columns]}).encode()
    offsets = []
    with open(path, 'wb') as file:
        file.write(MAGIC + _number(len(meta), LONG) + meta)
        begin = file.tell()
        file.write(bytes(2 * LONG))
        for sample in written:
            offsets.append(file.tell())
            parts = [wav_of_16_bits(sample), sample.transcript.encode(), sample.speaker.encode()]
            row = b''.join(_number(len(part), SHORT) + part for part in parts[: len(columns)])
            file.write(_number(len(row), SHORT) + row)
        end = file.tell()
        places = b''.join(_number(offset, LONG) for offset in offsets)
        file.write(_number(LONG + len(places), LONG) + _number(len(offsets), LONG) + places)
        file.seek(begin)
        file.write(_number(end - begin - LONG, LONG) + _number(len(offsets), LONG))


def _number(value: int, size: int) -> bytes:
    return value.to_bytes(size, 'big')


def _suffix_and_content(sample: Sample) -> tuple[str, bytes]:
    """What a file with this audio is called, and its content; WAV in the place of what is not common."""
    content = content_of(sample)
    with _opened(sample, content) as file:
        suffix = SUFFIXES.get(file.format)
    return (suffix, content) if suffix else ('.wav', wav_of_16_bits(sample))


def wav_of_16_bits(sample: Sample) -> bytes:
    """A plain WAV file with 16 bits of the same audio; its own file, where that is one. Raises `DataError`."""
    content = content_of(sample)
    with _opened(sample, content) as file:
        if file.format == 'WAV' and file.subtype == 'PCM_16':
            return content
        samples, rate = file.read(dtype='float32', always_2d=True), file.samplerate
    rounded = np.clip(np.rint(samples * np.float32(32768)), -32768, 32767).astype(np.int16)
    written = io.BytesIO()
    soundfile.write(written, rounded, rate, subtype='PCM_16', format='WAV')
    return written.getvalue()


def _opened(sample: Sample, content: bytes) -> soundfile.SoundFile:
    try:
        return soundfile.SoundFile(io.BytesIO(content))
    except soundfile.LibsndfileError as error:
        raise DataError(f'{sample.path}: cannot be read as audio: {error.error_string.rstrip(".")}') from error
