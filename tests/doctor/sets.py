"""Small data sets of real audio."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

from deepspeech_training.doctor.examination import Examination, examine, read_sets
from deepspeech_training.doctor.report import Report, diagnose
from deepspeech_training.doctor.settings import Settings
from deepspeech_training.text.alphabet import Alphabet

RATE = 16000
ALPHABET = Alphabet(" abcdefghijklmnopqrstuvwxyz'", 'alphabet.txt', 'NFC')
WORDS = ('one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'zero')

Audio = npt.NDArray[np.float64]


def speech(seed: int, seconds: float = 1.0, rate: int = RATE) -> Audio:
    """Noise that comes and goes as syllables do, with a peak of 0.4."""
    count = round(seconds * rate)
    random = np.random.default_rng(seed)
    loudness = 0.3 + 0.7 * np.abs(np.sin(np.arange(count) * 4 * np.pi / rate + seed))
    noise = random.normal(0, 1, count) * loudness
    return np.asarray(0.4 * noise / np.abs(noise).max(initial=1e-9))


def wav(path: Path, samples: Audio, rate: int = RATE, **options: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate, **options)
    return path


def table(path: Path, rows: Sequence[tuple[str, str]], **columns: Sequence[str]) -> Path:
    """A CSV file of audio files and transcripts, with the sizes of the files, and other columns."""
    with path.open('w', encoding='utf-8', newline='') as file:
        writer = csv.writer(file)
        writer.writerow(['wav_filename', 'wav_filesize', 'transcript', *columns])
        for number, (name, transcript) in enumerate(rows):
            audio = path.parent / name
            size = audio.stat().st_size if audio.is_file() else 1
            writer.writerow([name, size, transcript, *(values[number] for values in columns.values())])
    return path


def sound_set(folder: Path, name: str = 'train', count: int = 3, first: int = 0) -> list[tuple[str, str]]:
    """The rows of a set in which nothing is wrong; another `first` gives other audio and other transcripts."""
    rows = []
    for number in range(first, first + count):
        wav(folder / name / f'{number}.wav', speech(number))
        rows.append((f'{name}/{number}.wav', f'say {WORDS[number // 10 % 10]} {WORDS[number % 10]}'))
    return rows


def examined(*paths: Path, alphabet: Alphabet | None = ALPHABET) -> tuple[Examination, Report]:
    """What the doctor finds, in this process."""
    examination = examine(read_sets([str(path) for path in paths], 'NFC'), 1, False)
    return examination, diagnose(examination, alphabet, Settings())


def found(*paths: Path, alphabet: Alphabet | None = ALPHABET) -> list[tuple[str, str, int]]:
    """Kind, name of the set and line of each finding."""
    _, report = examined(*paths, alphabet=alphabet)
    return [(each.kind, Path(report.sets[each.set].path).name, each.problem.line) for each in report.findings]
