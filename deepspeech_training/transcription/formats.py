"""Transcripts as text, JSON, SRT and WebVTT."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any

from deepspeech_training.transcription.subtitles import Cue, make_cues
from deepspeech_training.transcription.transcript import Segment, Transcript, Word

FORMATS = ('text', 'json', 'srt', 'vtt')
SUFFIXES = {'text': '.txt', 'json': '.json', 'srt': '.srt', 'vtt': '.vtt'}
VTT_HEADER = 'WEBVTT\n\n'


def as_format(name: str, transcript: Transcript) -> str:
    """A whole file in the format `name`."""
    if name == 'text':
        return f'{transcript.text}\n'
    if name == 'json':
        return f'{json.dumps(as_json(transcript), ensure_ascii=False)}\n'
    cues = make_cues(transcript.words, transcript.separator)
    return as_srt(cues) if name == 'srt' else VTT_HEADER + as_vtt(cues)


def as_json(transcript: Transcript) -> dict[str, Any]:
    """Times in seconds, by the names that DeepSpeech's client gives them."""
    return {
        'file': transcript.path,
        'duration': _rounded(transcript.duration),
        'transcript': transcript.text,
        'words': [_word(word) for word in transcript.words],
        'segments': [_segment(segment) for segment in transcript.segments],
    }


def _word(word: Word) -> dict[str, Any]:
    return {'word': word.text, **_times(word.start, word.end), 'confidence': _rounded(word.confidence)}


def _segment(segment: Segment) -> dict[str, Any]:
    times = _times(segment.start, segment.end)
    return {**times, 'transcript': segment.text, 'confidence': _rounded(segment.confidence)}


def _times(start: float, end: float) -> dict[str, float]:
    return {'start_time': _rounded(start), 'duration': _rounded(end - start)}


def _rounded(value: float) -> float:
    return round(value, 3)


def as_srt(cues: Sequence[Cue], first: int = 1) -> str:
    """SubRip; `first` is the number of the first one."""
    return ''.join(
        f'{number}\n{_clock(cue.start, ",")} --> {_clock(cue.end, ",")}\n{cue.text}\n\n'
        for number, cue in enumerate(cues, first)
    )


def as_vtt(cues: Sequence[Cue]) -> str:
    """WebVTT without its header."""
    return ''.join(
        f'{_clock(cue.start, ".")} --> {_clock(cue.end, ".")}\n{html.escape(cue.text, quote=False)}\n\n' for cue in cues
    )


def _clock(seconds: float, point: str) -> str:
    whole, thousandths = divmod(round(seconds * 1000), 1000)
    return f'{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{point}{thousandths:03}'
