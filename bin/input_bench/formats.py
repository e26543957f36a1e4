"""Reading and checking the same utterances in one file format after the other."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile

from deepspeech_training.audio.reading import audio_info, read_audio
from deepspeech_training.config import FeatureConfig
from input_bench.stage import Stage, timed

FORMATS = {
    'WAV, 16 bits': ('WAV', 'PCM_16'),
    'WAV, 24 bits': ('WAV', 'PCM_24'),
    'WAV, float': ('WAV', 'FLOAT'),
    'WAV, mu-law': ('WAV', 'ULAW'),
    'AIFF, 16 bits': ('AIFF', 'PCM_16'),
    'FLAC': ('FLAC', 'PCM_16'),
    'Ogg Vorbis': ('OGG', 'VORBIS'),
    'Ogg Opus': ('OGG', 'OPUS'),
    'MP3': ('MP3', 'MPEG_LAYER_III'),
}
BLOCK_SECONDS = 1  # written at a time: libsndfile's Vorbis encoder fails at blocks of a minute


def time_formats(audio: Sequence[np.ndarray], features: FeatureConfig, repeats: int) -> list[Stage]:
    """CPU time of one thread: of reading, and of the look at the header that all files get before a training.

    `audio`: samples at the model's sample rate, which all files have. A format without that rate is left out.
    """
    audio_seconds = sum(map(len, audio)) / features.sample_rate / len(audio)
    stages = []
    for name, (form, subtype) in FORMATS.items():
        if not soundfile.check_format(form, subtype):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                paths = [
                    _write(Path(folder) / str(number), samples, features.sample_rate, form, subtype)
                    for number, samples in enumerate(audio)
                ]
            except soundfile.LibsndfileError:
                continue
            for action, runs in (
                ('read', timed(lambda paths=paths: [read_audio(path, features) for path in paths], repeats)),  # type: ignore[misc]
                ('check', timed(lambda paths=paths: [audio_info(path) for path in paths], repeats)),  # type: ignore[misc]
            ):
                stages.append(Stage(f'{action}: {name}', statistics.median(runs) / len(paths), audio_seconds))
    return stages


def _write(path: Path, samples: np.ndarray, rate: int, form: str, subtype: str) -> str:
    with soundfile.SoundFile(path, 'w', rate, 1, subtype, format=form) as file:
        for start in range(0, len(samples), BLOCK_SECONDS * rate):
            file.write(samples[start : start + BLOCK_SECONDS * rate])
    return str(path)
