"""Findings about single recordings."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from deepspeech_training.data.checks import audio_problem
from deepspeech_training.data.manifest import SIZE_COLUMN
from deepspeech_training.data.remembered import AudioFacts
from deepspeech_training.doctor.examination import DataSet, Examination
from deepspeech_training.doctor.settings import Settings


def facts_of(measured: np.void) -> AudioFacts:
    """A recording as the checks before a training know it."""
    size, frames, rate, channels = (int(measured[name]) for name in ('size', 'frames', 'sample_rate', 'channels'))
    return AudioFacts(size, 0, frames, rate, channels)


def find_in_audio(examination: Examination, settings: Settings) -> None:
    """Adds what is wrong with recordings: too short or too long, silent, quiet, clipped, off centre, mostly silence."""
    for number, each in enumerate(examination.sets):
        too_short = _find_short(examination, number, each, settings)
        good = each.heard & ~too_short
        silent = good & (each.measured['peak'] < settings.silent)
        for row in np.flatnonzero(silent):
            peak = decibels(each.measured['peak'][row])
            examination.add('silent', number, int(row), f'nothing can be heard: its peak is {peak}')
        _find_levels(examination, number, each.measured, good & ~silent, settings)
        _find_silence(examination, number, each.measured, good & ~silent, settings)
        _find_others(examination, number, each, good, settings)


def _find_short(examination: Examination, number: int, each: DataSet, settings: Settings) -> npt.NDArray[np.bool_]:
    """Which recordings no features can be made of: `[samples]`."""
    too_short = np.zeros(len(each.samples), bool)
    window = settings.features.window_ms / 1000
    for row in np.flatnonzero(each.heard & (each.measured['seconds'] < 2 * window)):
        if problem := audio_problem(facts_of(each.measured[row]), settings.features):
            examination.add('short', number, int(row), problem)
            too_short[row] = True
    return too_short


def _find_levels(
    examination: Examination,
    number: int,
    measured: npt.NDArray[np.void],
    rows: npt.NDArray[np.bool_],
    settings: Settings,
) -> None:
    for row in np.flatnonzero(rows & (measured['peak'] < settings.quiet)):
        examination.add('quiet', number, int(row), f'its peak is {decibels(measured["peak"][row])}')
    longest_ms = 1000 * measured['clipped_run'] / np.maximum(measured['sample_rate'], 1)
    clipped = (measured['clipped'] > settings.clipped) | (longest_ms > settings.clipped_ms)
    for row in np.flatnonzero(rows & clipped):
        examination.add(
            'clipping',
            number,
            int(row),
            f'{measured["clipped"][row]:.2%} of its samples are at full scale, for {longest_ms[row]:.1f} ms at most',
        )
    for row in np.flatnonzero(rows & (np.abs(measured['offset']) > settings.offset)):
        examination.add('offset', number, int(row), f'its mean is {measured["offset"][row]:+.3f} of full scale')


def _find_silence(
    examination: Examination,
    number: int,
    measured: npt.NDArray[np.void],
    rows: npt.NDArray[np.bool_],
    settings: Settings,
) -> None:
    around = np.maximum(measured['leading'], measured['trailing']) > settings.silence_seconds
    nearly_all = (measured['active'] < settings.least_active) & (measured['seconds'] >= 1)
    for row in np.flatnonzero(rows & (around | nearly_all)):
        one = measured[row]
        message = (
            f'{one["leading"]:.1f} s of silence before and {one["trailing"]:.1f} s behind, '
            f'{one["active"]:.0%} of {one["seconds"]:.1f} s are no silence'
        )
        examination.add('silence', number, int(row), message)


def _find_others(
    examination: Examination, number: int, each: DataSet, good: npt.NDArray[np.bool_], settings: Settings
) -> None:
    for row in np.flatnonzero(good & (each.measured['seconds'] > settings.long_seconds)).tolist():
        examination.add('long', number, row, f'is {each.measured["seconds"][row]:.1f} s long')
    for row, (sample, size) in enumerate(zip(each.samples, each.measured['size'].tolist(), strict=True)):
        if each.heard[row] and sample.source is None and sample.size != size:
            examination.add('size', number, row, f'has {size} bytes; {SIZE_COLUMN} is {sample.size}')
    rates, counts = np.unique(each.measured['sample_rate'][each.heard], return_counts=True)
    if len(rates) > 1:
        listed = ', '.join(f'{rate} Hz ({count})' for rate, count in zip(rates, counts, strict=True))
        examination.add('rates', number, -1, f'has recordings of {listed}')


def decibels(value: float) -> str:
    """A level as it is told, relative to full scale."""
    return f'{20 * math.log10(value):.1f} dBFS' if value > 0 else '0 (digital silence)'
