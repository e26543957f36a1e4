"""Which recordings are meant, and where their transcripts go."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deepspeech_training import log
from deepspeech_training.audio.reading import audio_info
from deepspeech_training.errors import DataError

MAGIC = (b'RIFF', b'RIFX', b'RF64', b'FORM', b'fLaC', b'OggS', b'ID3', b'.snd', b'caff', b'riff', b'NIST')
"""What sound files begin with: one of these that cannot be read is damaged, not something else."""


@dataclass(frozen=True)
class Recording:
    """A file. `inside`: its name below the folder that was given; `problem`: why it cannot be read, '' if it can."""

    path: str
    inside: str
    seconds: float
    problem: str = ''


def find_recordings(paths: Sequence[str]) -> list[Recording]:
    """The files that `paths` name, and all sound files in the folders among them, in the order of their names.

    In folders, files are known by their content; what is no sound is left out. Links to folders are not followed.
    """
    found: list[Recording] = []
    for path in paths:
        if os.path.isdir(path):
            found += _walk(path)
        else:
            found.append(_look_at(path, os.path.basename(path)))
    return found


def _walk(folder: str) -> Iterator[Recording]:
    for parent, folders, names in os.walk(folder, onerror=_complain):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(parent, name)
            recording = _look_at(path, os.path.relpath(path, folder))
            if not recording.problem or _looks_like_sound(path):
                yield recording
            else:
                log.debug(f'{recording.problem}: left out')


def _complain(error: OSError) -> None:
    log.warn(f'{error.filename}: cannot be read: {error.strerror}')


def _look_at(path: str, inside: str) -> Recording:
    try:
        return Recording(path, inside, audio_info(path).duration)
    except DataError as error:
        return Recording(path, inside, 0.0, str(error))


def _looks_like_sound(path: str) -> bool:
    try:
        with open(path, 'rb') as file:
            return file.read(4).startswith(MAGIC)
    except OSError:
        return False


def output_names(recordings: Sequence[Recording], suffix: str) -> list[str]:
    """A name for each transcript in a folder: `a.wav` becomes `a.txt`.

    With its own suffix, `a.wav.txt`, where two would have the same name. Raises `DataError` where they still have.
    """
    short = [os.path.splitext(recording.inside)[0] for recording in recordings]
    count = Counter(short)
    stems = [name if count[name] == 1 else recording.inside for name, recording in zip(short, recordings, strict=True)]
    twice = [stem for stem, number in Counter(stems).items() if number > 1]
    if twice:
        raise DataError(
            f'{twice[0]} is there more than once, and the transcripts would have one name: transcribe them apart'
        )
    return [stem + suffix for stem in stems]
