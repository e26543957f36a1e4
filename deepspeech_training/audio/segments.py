"""Where a recording can be cut: at its silences, told from speech by energy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float32]
Levels = npt.NDArray[np.float64]

LEVEL_SECONDS = 0.02  # of audio for one level
LEAST_LEVEL = -96.0  # dB; the smallest step of 16 bits is at -90
SILENT_ANYWAY = -50.0  # dB; where nothing is louder
GREATEST_CONTRAST = 45.0  # dB below the loudest speech; digital silence would put it lower
LEAST_CONTRAST = 10.0  # dB between noise and speech; less is all the same
SHARE_OF_CONTRAST = 0.25  # above the noise, of the way to the loudest speech, silence ends
SMOOTHED_LEVELS = 10
BREAK_LEVELS = 8  # of silence within a word, as in a stop


@dataclass(frozen=True)
class Splitting:
    """How recordings are cut into segments."""

    longest: float = 20.0  # seconds
    silence: float = 0.5  # seconds; what is quiet for less is a pause in speech
    pad: float = 0.2  # seconds of silence that speech keeps before and behind it


def split_at_silences(samples: Samples, rate: int, splitting: Splitting) -> list[tuple[int, int]]:
    """The segments of `samples` `[samples]` at `rate` Hz, each its first sample and the one behind its last.

    A recording that is not longer than `splitting.longest` is one segment. Of a longer one, each stretch of speech
    between silences is; where that is too long it is cut where it is quietest. There are none in silence.
    """
    longest = max(int(splitting.longest * rate), 1)
    if len(samples) <= longest:
        return [(0, len(samples))] if len(samples) else []
    hop = level_samples(rate)
    levels = levels_of(samples, hop)
    quiet = levels < silence_threshold(levels)
    segments: list[tuple[int, int]] = []
    for start, end in _speech(quiet, round(splitting.silence / LEVEL_SECONDS), round(splitting.pad / LEVEL_SECONDS)):
        segments += _cut(levels, start, end, max(longest // hop, 1))
    return [(start * hop, len(samples) if end >= len(levels) else end * hop) for start, end in segments]


def level_samples(rate: int) -> int:
    """Samples of one level."""
    return max(1, round(LEVEL_SECONDS * rate))


def levels_of(samples: Samples, hop: int) -> Levels:
    """The energy of each `hop` samples in dB, 0 for a square wave at full scale; of what remains in the end, too."""
    squares = np.square(samples, dtype=np.float64)
    means = np.add.reduceat(squares, np.arange(0, len(samples), hop)) / hop
    levels: Levels = 10 * np.log10(np.maximum(means, 10 ** (LEAST_LEVEL / 10)))
    return levels


def silence_threshold(levels: Levels) -> float:
    """The level in dB below which there is no speech in a recording, or so far, of these `levels`.

    Nearer to the noise than to the speech, for the ends of words are soft. A recording that is loud or quiet
    throughout has no silences.
    """
    noise = float(np.percentile(levels, 10))
    width = min(SMOOTHED_LEVELS, len(levels))
    loudest = float(np.convolve(levels, np.full(width, 1 / width), 'valid').max())
    if loudest < noise + LEAST_CONTRAST:
        return SILENT_ANYWAY
    return max(loudest - GREATEST_CONTRAST, noise + SHARE_OF_CONTRAST * (loudest - noise))


def _speech(quiet: npt.NDArray[np.bool_], silence: int, pad: int) -> Iterator[tuple[int, int]]:
    """What lies between runs of at least `silence` quiet levels, with `pad` of these on both sides."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], ~quiet, [False]])))
    start, end = -1, -1
    for first, behind in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if end < 0:
            start = max(0, first - pad)
        elif first - end >= max(silence, 1):
            middle = (end + first) // 2
            yield start, min(end + pad, middle)
            start = max(first - pad, middle)
        end = behind
    if end >= 0:
        yield start, min(end + pad, len(quiet))


def _cut(levels: Levels, start: int, end: int, longest: int) -> Iterator[tuple[int, int]]:
    """Pieces of at most `longest` levels; each ends at the quietest place of its second half."""
    while end - start > longest:
        half = start + max(longest // 2, 1)
        smooth = np.convolve(levels[half : start + longest], np.full(5, 0.2), 'same') if longest > 10 else levels[half:]
        cut = half + int(np.argmin(smooth[: max(1, start + longest - half)]))
        cut = max(cut, start + 1)
        yield start, cut
        start = cut
    yield start, end


class Loudness:
    """Where there is sound in a segment."""

    def __init__(self, samples: Samples, rate: int) -> None:
        levels = levels_of(samples, level_samples(rate)) if len(samples) else np.zeros(0)
        self._quiet = levels < silence_threshold(levels) if len(levels) else np.zeros(0, bool)

    def last_sound(self, start: float, end: float) -> float:
        """When a sound that is going on at `start` ends, at the latest at `end`: seconds, as these."""
        first, behind = round(start / LEVEL_SECONDS), min(math.ceil(end / LEVEL_SECONDS), len(self._quiet))
        last = first
        for place in range(first, behind):
            if not self._quiet[place]:
                last = place + 1
            elif place - last >= BREAK_LEVELS:
                break
        return min(max(start, last * LEVEL_SECONDS), end) if last > first else start


class Endpointer:
    """Tells when somebody begins to speak and when the utterance is over, while the audio arrives."""

    def __init__(self, rate: int, splitting: Splitting) -> None:
        self.is_speech = False
        self._splitting = splitting
        self._hop = level_samples(rate)
        self._rest = np.zeros(0, np.float32)
        self._levels = np.zeros(0)
        self._quiet = 0  # levels since speech was last heard
        self._speech = 0  # levels since the utterance began

    @property
    def silence(self) -> float:
        """Seconds since speech was last heard."""
        return self._quiet * LEVEL_SECONDS

    def feed(self, samples: Samples) -> bool:
        """Whether an utterance ends with these `samples`; afterwards `is_speech` says whether one is under way."""
        joined = np.concatenate([self._rest, samples])
        whole = len(joined) // self._hop * self._hop
        self._rest = joined[whole:]
        if not whole:
            return False
        new = levels_of(joined[:whole], self._hop)
        history = round(20 / LEVEL_SECONDS)
        self._levels = np.concatenate([self._levels, new])[-history:]
        threshold = silence_threshold(self._levels)
        ended = False
        for level in new:
            ended = self._hear(level >= threshold) or ended
        return ended

    def _hear(self, loud: bool) -> bool:
        self._quiet = 0 if loud else self._quiet + 1
        if not self.is_speech:
            self.is_speech, self._speech = loud, 0
            return False
        self._speech += 1
        if self.silence >= self._splitting.silence or self._speech * LEVEL_SECONDS >= self._splitting.longest:
            self.is_speech = False
            return True
        return False
