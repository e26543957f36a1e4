"""Augmentations of spectrograms and features, `[frames, bands]`, and those that work on audio `[samples]` too.

None changes its input. The time axis is the first one.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy.ndimage

Values = npt.NDArray[np.float32]
Random = np.random.Generator


def pitch(spectrogram: Values, factor: float) -> Values:
    """The frequency axis scaled: what was at f is at `factor` times f. Above what is known there is nothing."""
    bands = spectrogram.shape[1]
    sources = np.arange(bands) / factor
    scaled = _interpolated(spectrogram.T, sources).T
    scaled[:, sources > bands - 1] = 0
    return np.ascontiguousarray(scaled)


def tempo(spectrogram: Values, factor: float, least_frames: int) -> Values:
    """The time axis scaled: `factor` times as fast, but never fewer than `least_frames` frames because of that."""
    frames = len(spectrogram)
    new = max(round(frames / factor), min(least_frames, frames), 1)
    return _interpolated(spectrogram, (np.arange(new) + 0.5) * frames / new - 0.5)


def _interpolated(rows: Values, places: npt.NDArray[np.float64]) -> Values:
    """Linearly between the rows of a matrix, at `places` `[n]`; beyond the ends the first or the last row."""
    places = np.clip(places, 0, len(rows) - 1)
    below = np.minimum(places.astype(np.intp), max(len(rows) - 2, 0))
    share = (places - below).astype(np.float32)[:, None]
    return rows[below] * (1 - share) + rows[np.minimum(below + 1, len(rows) - 1)] * share


def warp(spectrogram: Values, nt: int, nf: int, wt: float, wf: float, random: Random) -> Values:
    """A grid of `nt` times `nf` inner points is shifted, and what lies between them goes along; the edges stay.

    Shifts are normal; a standard deviation of 1 is half the distance to the next point, and no shift is farther,
    so that no line crosses another.
    """
    frames, bands = spectrogram.shape
    shifts = random.standard_normal([2, nt, nf]) * np.array([wt, wf])[:, None, None]
    spacings = np.array([frames - 1, bands - 1])[:, None, None] / np.array([nt + 1, nf + 1])[:, None, None]
    grid = np.pad(np.clip(shifts, -0.99, 0.99) * spacings / 2, [(0, 0), (1, 1), (1, 1)])
    in_time, in_frequency = _weights(frames, nt + 2), _weights(bands, nf + 2)
    moved = in_time @ grid @ in_frequency.T  # [2, frames, bands]
    places = np.indices([frames, bands]) - moved
    warped: Values = scipy.ndimage.map_coordinates(spectrogram, places, order=1, mode='nearest')
    return warped


def _weights(count: int, points: int) -> npt.NDArray[np.float64]:
    """`[count, points]`: how much each of `points` equally spaced ones counts for each of `count` positions."""
    positions = np.linspace(0, points - 1, count)
    return np.maximum(0, 1 - np.abs(positions[:, None] - np.arange(points)))


def frequency_mask(spectrogram: Values, n: int, size: int, random: Random) -> Values:
    """`n` intervals of `size` bands each set to zero."""
    return np.ascontiguousarray(_masked(spectrogram.T, n, size, random).T)


def time_mask(values: Values, n: int, size: int, random: Random) -> Values:
    """`n` intervals of `size` frames or samples each set to zero."""
    return _masked(values, n, size, random)


def _masked(rows: Values, n: int, size: int, random: Random) -> Values:
    size = min(size, len(rows))
    masked = rows.copy()
    for start in random.integers(len(rows) - size + 1, size=n).tolist():
        masked[start : start + size] = 0
    return masked


def dropout(values: Values, rate: float, random: Random) -> Values:
    """Each value zero with the probability `rate`; the others stay as they are."""
    return np.where(random.random(values.shape, np.float32) < rate, np.float32(0), values)


def add(values: Values, stddev: float, random: Random) -> Values:
    """Normal random numbers of mean 0 added."""
    return values + np.float32(stddev) * random.standard_normal(values.shape, np.float32)


def multiply(values: Values, stddev: float, random: Random) -> Values:
    """Multiplied by normal random numbers of mean 1."""
    return values * (1 + np.float32(stddev) * random.standard_normal(values.shape, np.float32))


def frames_of(milliseconds: float, unit_ms: float) -> int:
    """How many frames or samples of `unit_ms` last so long: rounded, halves up."""
    return math.floor(milliseconds / unit_ms + 0.5)
