"""Many recordings: read, cut at silences, recognized, and put together again in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from deepspeech_training.audio.reading import read_audio
from deepspeech_training.audio.segments import Splitting, split_at_silences
from deepspeech_training.config import FeatureConfig
from deepspeech_training.errors import DataError
from deepspeech_training.transcription.crew import Done, Task
from deepspeech_training.transcription.files import Recording
from deepspeech_training.transcription.transcript import Segment, Transcript

Recognize = Callable[[Iterable[Task]], Iterator[Done]]


@dataclass(frozen=True)
class Failure:
    """A recording without a transcript, and why."""

    path: str
    reason: str


@dataclass
class _Pending:
    """What is known of a recording so far; `count` is -1 until it is read."""

    count: int = -1
    duration: float = 0.0
    problem: str = ''
    segments: dict[int, Segment] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return bool(self.problem) or len(self.segments) == self.count


def transcribe_recordings(
    recordings: Sequence[Recording],
    recognize: Recognize,
    features: FeatureConfig,
    splitting: Splitting,
    separator: str,
    advance: Callable[[float], None],
    channel: int = 0,
) -> Iterator[Transcript | Failure]:
    """The transcripts in the order of `recordings`, as soon as they are known. One that fails does not stop the rest.

    `recognize` answers in any order. `advance` is told how many seconds of audio are done. `channel` is that of
    `FeatureConfig`: models know nothing of it.
    """
    pending = [_Pending(problem=recording.problem) for recording in recordings]
    features = replace(features, normalize_sample_rate=True, channel=channel)
    following = 0

    def complete() -> Iterator[Transcript | Failure]:
        nonlocal following
        while following < len(pending) and pending[following].is_complete:
            yield _result(recordings[following], pending[following], separator)
            pending[following] = _Pending(problem='given out')  # frees the words
            following += 1

    for done in recognize(_tasks(recordings, pending, features, splitting)):
        advance(round(done.seconds, 1))
        state = pending[done.file]
        if isinstance(done.result, str):
            state.problem = state.problem or done.result
        else:
            state.segments[done.segment] = done.result
        yield from complete()
    yield from complete()


def _tasks(
    recordings: Sequence[Recording], pending: Sequence[_Pending], features: FeatureConfig, splitting: Splitting
) -> Iterator[Task]:
    rate = features.sample_rate
    for number, recording in enumerate(recordings):
        if recording.problem:
            continue
        try:
            samples = read_audio(recording.path, features)
        except DataError as error:
            pending[number].problem = str(error)
            continue
        pending[number].duration = len(samples) / rate
        segments = split_at_silences(samples, rate, splitting)
        pending[number].count = len(segments)
        for place, (start, end) in enumerate(segments):
            yield Task(number, place, start / rate, samples[start:end].copy())


def _result(recording: Recording, state: _Pending, separator: str) -> Transcript | Failure:
    if state.problem:
        return Failure(recording.path, state.problem)
    segments = tuple(state.segments[place] for place in range(state.count))
    return Transcript(recording.path, state.duration, segments, separator)
