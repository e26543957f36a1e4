"""Words with times as subtitles: pieces of sensible length, on one or two lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deepspeech_training.transcription.transcript import Word

COLUMNS = 42  # of a line, as broadcasters have it
LINES = 2
LONGEST = 6.0  # seconds
SHORTEST = 1.0  # seconds, where the next one leaves room
PAUSE = 0.8  # seconds of silence that end a subtitle


@dataclass(frozen=True)
class Cue:
    """One subtitle. Times in seconds."""

    start: float
    end: float
    text: str


def make_cues(words: Sequence[Word], separator: str) -> list[Cue]:
    """The subtitles for `words`, in order and without overlap."""
    groups = list(_groups(words, separator))
    cues = []
    for number, group in enumerate(groups):
        start, end = group[0].start, max(group[-1].end, group[0].start + SHORTEST)
        if number + 1 < len(groups):
            end = min(end, groups[number + 1][0].start)
        lines = _lines([word.text for word in group], separator)
        cues.append(Cue(start, max(end, start), '\n'.join(lines)))
    return cues


def _groups(words: Sequence[Word], separator: str) -> Iterator[list[Word]]:
    group: list[Word] = []
    for word in words:
        if group:
            pause = word.start - group[-1].end > PAUSE
            fits = len(_lines([each.text for each in [*group, word]], separator)) <= LINES
            if pause or not fits or word.end - group[0].start > LONGEST:
                yield group
                group = []
        group.append(word)
    if group:
        yield group


def _lines(words: Sequence[str], separator: str) -> list[str]:
    """Two lines of similar length where one is not enough; more where a word is too long for that."""
    whole = separator.join(words)
    if len(whole) <= COLUMNS or len(words) == 1:
        return [whole]
    splits = [(separator.join(words[:n]), separator.join(words[n:])) for n in range(1, len(words))]
    best = min(splits, key=lambda split: max(map(len, split)))
    if max(map(len, best)) <= COLUMNS:
        return list(best)
    return [separator.join(words[:1]), *_lines(words[1:], separator)]
