"""The kinds of findings: how bad each is, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from deepspeech_training.data.manifest import Problem

ERROR, WARNING, NOTE = 'error', 'warning', 'note'
SEVERITIES = (ERROR, WARNING, NOTE)
"""An error: the row cannot be used, or spoils what is measured. A warning: probably a mistake. A note: good to know."""


@dataclass(frozen=True)
class Kind:
    """What several rows can have wrong."""

    severity: str
    title: str
    advice: str


KINDS = {
    'row': Kind(ERROR, 'Rows that cannot be read', 'Correct the data set at this line.'),
    'audio': Kind(ERROR, 'Audio files that cannot be used', 'Copy, download or convert them again.'),
    'short': Kind(ERROR, 'Audio shorter than one window of features', 'Leave it out, or record it again.'),
    'silent': Kind(ERROR, 'Audio in which nothing can be heard', 'Leave it out, or record it again.'),
    'empty': Kind(ERROR, 'Empty transcripts', 'Write down what is said, or leave the row out.'),
    'alphabet': Kind(
        ERROR, 'Characters that are not in the alphabet', 'Replace them, or add them to the alphabet of a new model.'
    ),
    'length': Kind(
        ERROR, 'Transcripts too long for their audio', 'CTC cannot align them: find out which of both is wrong.'
    ),
    'conflict': Kind(
        ERROR, 'The same audio with different transcripts', 'At most one of them is right: correct the others.'
    ),
    'shared': Kind(
        ERROR, 'Audio that is in several sets', 'What was trained with proves nothing in a test: keep it in one set.'
    ),
    'duplicate': Kind(WARNING, 'Audio that is in a set twice', 'It counts twice: leave the repetitions out.'),
    'fast': Kind(
        WARNING, 'Unusually many characters a second', 'The audio may be cut off, or belong to another transcript.'
    ),
    'slow': Kind(
        WARNING, 'Unusually few characters a second', 'The transcript may lack words, or belong to other audio.'
    ),
    'clipping': Kind(WARNING, 'Clipped audio', 'Record it with less gain; what is cut off cannot be brought back.'),
    'quiet': Kind(WARNING, 'Very quiet audio', 'Amplify the recording, as far as noise allows.'),
    'silence': Kind(WARNING, 'Long silence around the speech', 'Cut it off: it costs time and memory.'),
    'offset': Kind(WARNING, 'Audio with a DC offset', 'Remove the offset, or mend the sound card.'),
    'long': Kind(WARNING, 'Very long audio', 'Cut it at pauses: one long utterance needs the memory of a whole batch.'),
    'spaces': Kind(
        WARNING, 'Spaces at the ends of a transcript, or several in a row', 'Remove them; --fix does.'
    ),
    'invisible': Kind(
        WARNING, 'Characters that cannot be seen', 'Remove control characters, and spaces other than the common one.'
    ),
    'speaker': Kind(
        WARNING, 'Speakers who are in several sets', 'Error rates will be lower than those of new speakers.'
    ),
    'digits': Kind(NOTE, 'Digits in transcripts', 'A model learns what is said: write numbers as words.'),
    'case': Kind(NOTE, 'Capitals and small letters in one set', 'Nobody hears the difference: use one of them.'),
    'normal form': Kind(
        NOTE, 'Transcripts in another Unicode normal form', 'They are normalized where they are read.'
    ),
    'size': Kind(
        NOTE, 'File sizes other than wav_filesize says', 'Training sorts by wav_filesize; --fix writes the real sizes.'
    ),
    'text': Kind(
        NOTE, 'Transcripts that are in several sets', 'Language models made of one know the sentences of the other.'
    ),
    'rates': Kind(NOTE, 'Several sample rates in one set', 'Upsampled audio lacks high frequencies; models notice.'),
}  # fmt: skip


class Finding(NamedTuple):
    """One thing that is wrong or strange, with a row or with a whole set."""

    kind: str
    set: int  # which of the data sets
    row: int  # position among the samples; -1: not of one of them
    problem: Problem  # where, and what; line 0 stands for the whole set

    @property
    def severity(self) -> str:
        return KINDS[self.kind].severity

    def __str__(self) -> str:
        return str(self.problem) if self.problem.line else f'{self.problem.csv}: {self.problem.message}'
