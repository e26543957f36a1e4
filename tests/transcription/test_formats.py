from __future__ import annotations

import itertools
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepspeech_training.transcription.formats import as_format, as_srt
from deepspeech_training.transcription.subtitles import COLUMNS, LONGEST, Cue, make_cues
from deepspeech_training.transcription.transcript import Segment, Transcript, Word


def words(*texts: str, start: float = 0.0, each: float = 0.3, pause: float = 0.1) -> list[Word]:
    times = [start + number * (each + pause) for number in range(len(texts))]
    return [Word(text, time, time + each, 0.5) for text, time in zip(texts, times, strict=True)]


def transcript(*texts: str) -> Transcript:
    spoken = tuple(words(*texts))
    return Transcript('a.wav', 9.0, (Segment(0.0, 9.0, ' '.join(texts), spoken, 0.25),))


def test_text() -> None:
    assert as_format('text', transcript('one', 'two')) == 'one two\n'
    assert as_format('text', transcript()) == '\n'


def test_json_is_one_line_with_deepspeechs_names() -> None:
    line = as_format('json', transcript('öne', 'two'))
    assert line.count('\n') == 1
    assert 'öne' in line
    assert json.loads(line) == {
        'file': 'a.wav',
        'duration': 9.0,
        'transcript': 'öne two',
        'words': [
            {'word': 'öne', 'start_time': 0.0, 'duration': 0.3, 'confidence': 0.5},
            {'word': 'two', 'start_time': 0.4, 'duration': 0.3, 'confidence': 0.5},
        ],
        'segments': [{'start_time': 0.0, 'duration': 9.0, 'transcript': 'öne two', 'confidence': 0.25}],
    }


def test_srt() -> None:
    cues = [Cue(0.0, 1.0, 'a <b>'), Cue(3661.5, 3663.0005, 'c\nd')]
    assert as_srt(cues) == ('1\n00:00:00,000 --> 00:00:01,000\na <b>\n\n2\n01:01:01,500 --> 01:01:03,000\nc\nd\n\n')
    assert as_srt(cues[:1], first=7).startswith('7\n')
    assert as_format('srt', transcript('one', 'two')) == '1\n00:00:00,000 --> 00:00:01,000\none two\n\n'


def test_vtt() -> None:
    assert as_format('vtt', transcript('<one>', '&')) == (
        'WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n&lt;one&gt; &amp;\n\n'
    )
    assert as_format('vtt', transcript()) == 'WEBVTT\n\n'


def test_a_pause_ends_a_subtitle() -> None:
    cues = make_cues([*words('one', 'two'), *words('three', start=2.0)], ' ')
    assert [(cue.text, cue.start, cue.end) for cue in cues] == [('one two', 0.0, 1.0), ('three', 2.0, 3.0)]


def test_two_lines_are_of_similar_length() -> None:
    (cue,) = make_cues(words(*['word'] * 12, each=0.1), ' ')
    first, second = cue.text.split('\n')
    assert len(first) == len(second)


@given(st.lists(st.text('abc', min_size=1, max_size=15), max_size=60), st.sampled_from([' ', '']), st.floats(0.05, 1))
def test_subtitles_have_all_words_and_sensible_lengths(texts: list[str], separator: str, each: float) -> None:
    cues = make_cues(words(*texts, each=each), separator)
    assert ''.join(re.sub(r'\s', '', cue.text) for cue in cues) == ''.join(texts)
    for cue in cues:
        assert len(cue.text.split('\n')) <= 2
        assert all(len(line) <= COLUMNS for line in cue.text.split('\n'))
        assert 0 < cue.end - cue.start <= LONGEST + 1e-6
    for one, following in itertools.pairwise(cues):
        assert one.end <= following.start


def test_a_word_longer_than_a_line_stands_alone() -> None:
    cues = make_cues(words('a', 'b' * 100, 'c'), ' ')
    assert max(len(cue.text) for cue in cues) >= 100
    assert pytest.approx(cues[0].start) == 0
