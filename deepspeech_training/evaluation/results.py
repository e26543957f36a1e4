"""The transcriptions of a run: on disk as they come, their totals in memory."""

from __future__ import annotations

import json
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import numpy.typing as npt

from deepspeech_training.evaluation.summary import Summary
from deepspeech_training.text.metrics import Transcription

OVERALL = 'overall'


@dataclass(frozen=True)
class Result:
    """An utterance of the set with the name `set_name`."""

    set_name: str
    transcription: Transcription


class Results:
    """All transcriptions of a run, in a temporary file, and a summary of each set. A context manager.

    In memory are the summaries and 22 bytes an utterance, by which they are ranked.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """`names`: of the sets, in their order."""
        self.names = list(names)
        self.summaries = [Summary(name, number) for number, name in enumerate(names)]
        self._file = tempfile.TemporaryFile('w+b')  # noqa: SIM115 - closed by __exit__
        self._end = 0
        self._wers = array('f')
        self._losses = array('f')
        self._offsets = array('q')
        self._sets = array('H')
        self._lines = array('I')

    def add(self, set_number: int, line: int, one: Transcription) -> None:
        """The utterance that is on this `line` of a set. May come in any order."""
        self.summaries[set_number].add(line, one)
        self._wers.append(one.wer)
        self._losses.append(one.loss)
        self._offsets.append(self._end)
        self._sets.append(set_number)
        self._lines.append(line)
        text = json.dumps([set_number, one.wav_filename, one.src, one.res, one.loss]).encode() + b'\n'
        self._file.seek(self._end)
        self._file.write(text)
        self._end += len(text)

    def __len__(self) -> int:
        return len(self._offsets)

    def overall(self) -> Summary:
        """Of all sets together."""
        return Summary.of_all(OVERALL, self.summaries)

    def ranking(self, set_number: int | None = None) -> npt.NDArray[np.int64]:
        """The numbers of all utterances, or those of a set, by word error rate, worst last.

        Among equal ones, those of the greater loss come first, as in DeepSpeech's report, then those that the sets have
        first.
        """
        order = self._order(worst_first=False)
        return order if set_number is None else order[np.frombuffer(self._sets, np.uint16)[order] == set_number]

    def worst_first(self) -> npt.NDArray[np.int64]:
        """The numbers of all utterances by word error rate, then by loss, the worst first."""
        return self._order(worst_first=True)

    def _order(self, *, worst_first: bool) -> npt.NDArray[np.int64]:
        wers, losses = np.frombuffer(self._wers, np.float32), np.frombuffer(self._losses, np.float32)
        sets, lines = np.frombuffer(self._sets, np.uint16), np.frombuffer(self._lines, np.uint32)
        return np.lexsort((lines, sets, -losses, -wers if worst_first else wers))

    def read(self, numbers: Iterable[int]) -> Iterator[Result]:
        """The utterances with these numbers."""
        for number in numbers:
            self._file.seek(self._offsets[number])
            set_number, path, src, res, loss = json.loads(self._file.readline())
            yield Result(self.names[set_number], Transcription.of(path, src, res, loss))

    def __enter__(self) -> Results:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
