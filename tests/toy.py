"""A toy language that a tiny model learns in seconds: each letter is a tone."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import soundfile

from deepspeech_training.config import (
    CheckpointConfig,
    Config,
    DataConfig,
    DecodingConfig,
    ModelConfig,
    ParallelConfig,
    ReportConfig,
    ScheduleConfig,
)
from deepspeech_training.data.manifest import Sample

RATE = 16000
TONES = {' ': 0.0, 'a': 400.0, 'b': 900.0, 'c': 1800.0}  # Hz
LETTER_SECONDS = 0.12


def write_alphabet(folder: Path) -> str:
    path = folder / 'alphabet.txt'
    path.write_text(''.join(f'{letter}\n' for letter in TONES))
    return str(path)


def write_tones(path: Path, text: str, rate: int = RATE) -> None:
    """A WAV file that says `text`."""
    time = np.arange(int(LETTER_SECONDS * rate)) / rate
    envelope = np.sin(np.pi * time / LETTER_SECONDS)
    letters = [0.5 * envelope * np.sin(2 * np.pi * TONES[letter] * time) for letter in text]
    soundfile.write(path, np.concatenate(letters), rate, subtype='PCM_16')


def write_corpus(folder: Path, name: str, texts: list[str]) -> str:
    """WAV files and their CSV file; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, text in enumerate(texts):
        path = folder / f'{name}_{number}.wav'
        write_tones(path, text)
        rows.append((path.name, path.stat().st_size, text))
    csv_path = folder / f'{name}.csv'
    with csv_path.open('w', newline='', encoding='utf-8') as file:
        writer = csv.writer(file)
        writer.writerow(('wav_filename', 'wav_filesize', 'transcript'))
        writer.writerows(rows)
    return str(csv_path)


def random_texts(count: int, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    return [''.join(random.choice(list('abc'), size=random.integers(2, 6))) for _ in range(count)]


def toy_config(
    folder: Path,
    train: int = 6,
    dev: int = 0,
    test: int = 0,
    *,
    batch_size: int = 2,
    epochs: int = 1,
    towers: int = 1,
    n_hidden: int = 16,
) -> Config:
    """A run on a toy corpus of so many utterances, with everything it writes below `folder`."""
    files = {
        name: (write_corpus(folder / 'corpus', name, random_texts(count, seed)),) if count else ()
        for seed, (name, count) in enumerate({'train': train, 'dev': dev, 'test': test}.items())
    }
    checkpoints = str(folder / 'checkpoints')
    return Config(
        data=DataConfig(
            train_files=files['train'],
            dev_files=files['dev'],
            test_files=files['test'],
            train_batch_size=batch_size,
            alphabet_config_path=write_alphabet(folder),
        ),
        model=ModelConfig(n_hidden=n_hidden, dropout=(0.0,) * 6),
        schedule=ScheduleConfig(epochs=epochs),
        checkpoints=CheckpointConfig(load_dir=checkpoints, save_dir=checkpoints),
        parallel=ParallelConfig(cpu_towers=towers),
        report=ReportConfig(summary_dir=str(folder / 'summaries'), show_progressbar=False),
        decoding=DecodingConfig(beam_width=16),
    )


def impossible(sample: Sample) -> Sample:
    """The same audio with a transcript that does not fit into it: its loss is infinite."""
    return Sample(sample.path, sample.size, 'ab' * 200, sample.csv, sample.line)
