"""Recordings are cut at their silences, and nothing that was said is lost."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepspeech_training.audio.segments import Endpointer, Loudness, Splitting, split_at_silences

RATE = 8000


def recording(*parts: float, noise: float = 0.001) -> npt.NDArray[np.float32]:
    """Speech (a tone that swells) for positive numbers of seconds, silence for negative ones, and noise in all."""
    pieces = []
    for seconds in parts:
        time = np.arange(round(abs(seconds) * RATE)) / RATE
        swell = 0.3 + 0.7 * np.sin(8 * time) ** 2
        pieces.append(0.3 * swell * np.sin(3000 * time) if seconds > 0 else np.zeros(len(time)))
    whole = np.concatenate(pieces)
    return (whole + np.random.default_rng(1).normal(scale=noise, size=len(whole))).astype(np.float32)


def seconds(segments: list[tuple[int, int]]) -> list[tuple[float, float]]:
    return [(start / RATE, end / RATE) for start, end in segments]


@pytest.mark.parametrize('noise', [0, 0.001, 0.02])
def test_speech_between_silences(noise: float) -> None:
    samples = recording(-1, 2, -0.3, 1, -1, 3, -0.6, 0.5, -2, noise=noise)
    found = seconds(split_at_silences(samples, RATE, Splitting(longest=5, silence=0.5, pad=0.2)))
    assert found == [pytest.approx(each, abs=0.06) for each in [(0.8, 4.5), (5.1, 8.5), (8.7, 9.6)]]


def test_what_is_short_stays_whole() -> None:
    samples = recording(-1, 1, -1, 1, -1)
    assert split_at_silences(samples, RATE, Splitting(longest=5)) == [(0, len(samples))]
    assert split_at_silences(samples[:0], RATE, Splitting()) == []
    assert len(split_at_silences(samples, RATE, Splitting(longest=4.9))) == 2


def test_silence_has_no_segments() -> None:
    assert split_at_silences(recording(-9, noise=0.0001), RATE, Splitting(longest=5)) == []
    assert split_at_silences(np.zeros(9 * RATE, np.float32), RATE, Splitting(longest=5)) == []


def test_speech_without_silences_is_cut_where_it_is_quietest() -> None:
    samples = recording(3, -0.2, 3, -0.2, 3)
    found = seconds(split_at_silences(samples, RATE, Splitting(longest=5)))
    assert [end for _, end in found] == [pytest.approx(3.1, abs=0.1), pytest.approx(6.3, abs=0.1), 9.4]
    assert [start for start, _ in found] == [0, *(end for _, end in found[:-1])]


@given(st.lists(st.floats(-2, 4).filter(lambda length: abs(length) > 0.05), min_size=1, max_size=8), st.floats(0.1, 3))
@settings(max_examples=60, deadline=None)
def test_segments_are_in_order_and_not_too_long(parts: list[float], longest: float) -> None:
    samples = recording(*parts)
    found = split_at_silences(samples, RATE, Splitting(longest=longest, silence=0.3, pad=0.1))
    edges = [edge for segment in found for edge in segment]
    assert edges == sorted(edges)
    assert all(0 < end - start <= longest * RATE for start, end in found)
    assert not found or (found[0][0] >= 0 and found[-1][1] <= len(samples))


@pytest.mark.parametrize('block', [1, 100, 800, 4000])
def test_an_utterance_ends_after_a_silence(block: int) -> None:
    samples = recording(-1, 2, -0.3, 1, -1, 2, -1)
    endpointer = Endpointer(RATE, Splitting(longest=10, silence=0.5))
    begins, ends, was = [], [], False
    for start in range(0, len(samples), block):
        if endpointer.feed(samples[start : start + block]):
            ends.append((start + block) / RATE)
        elif endpointer.is_speech and not was:
            begins.append(start / RATE)
        was = endpointer.is_speech
    slack = 0.1 + 2 * block / RATE
    assert begins == [pytest.approx(1, abs=slack), pytest.approx(5.3, abs=slack)]
    assert ends == [pytest.approx(4.8, abs=slack), pytest.approx(7.8, abs=slack)]


def test_an_utterance_ends_when_it_is_too_long() -> None:
    endpointer = Endpointer(RATE, Splitting(longest=2))
    samples = recording(-0.5, 7)
    ends = [n for n in range(0, len(samples), 800) if endpointer.feed(samples[n : n + 800])]
    assert np.diff(ends) == pytest.approx([2 * RATE] * (len(ends) - 1), abs=1000)
    assert len(ends) == 3


def test_the_end_of_a_sound() -> None:
    loudness = Loudness(recording(-0.5, 1, -0.1, 0.4, -1, 1), RATE)
    assert loudness.last_sound(0.6, 3.0) == pytest.approx(2.0, abs=0.05), 'over a short stop'
    assert loudness.last_sound(0.6, 1.2) == 1.2
    assert loudness.last_sound(2.5, 2.9) == 2.5, 'there is none'
    assert Loudness(np.zeros(0, np.float32), RATE).last_sound(0, 0) == 0
