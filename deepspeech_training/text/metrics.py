"""Word and character error rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from deepspeech_training.text.edits import count_edits


@dataclass(frozen=True)
class Transcription:
    """What was said (`src`), what was recognised (`res`), and how far apart they are.

    The distances are Levenshtein's: the least number of characters (or words) to insert, remove or replace.
    Words are what white space separates. The names are those of DeepSpeech's test reports.
    `loss` is not a number (NaN) where nobody computed it.
    """

    wav_filename: str
    src: str
    res: str
    loss: float
    char_distance: int
    char_length: int
    word_length: int
    substitutions: int  # of words
    deletions: int
    insertions: int

    @classmethod
    def of(cls, wav_filename: str, src: str, res: str, loss: float) -> Transcription:
        src_words = src.split()
        substitutions, deletions, insertions = count_edits(src_words, res.split())
        return cls(
            wav_filename=wav_filename,
            src=src,
            res=res,
            loss=loss,
            char_distance=Levenshtein.distance(src, res),
            char_length=len(src),
            word_length=len(src_words),
            substitutions=substitutions,
            deletions=deletions,
            insertions=insertions,
        )

    @property
    def word_distance(self) -> int:
        """Words to insert, remove or replace."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def wer(self) -> float:
        """Word error rate of this one; above 1 where more is wrong than was said."""
        return rate(self.word_distance, self.word_length)

    @property
    def cer(self) -> float:
        """Character error rate of this one."""
        return rate(self.char_distance, self.char_length)


def error_rates(transcriptions: Sequence[Transcription]) -> tuple[float, float, float]:
    """Word error rate, character error rate and mean loss over a whole set.

    The rates are the sum of the distances over the sum of the lengths, so that a long utterance counts for more than
    a short one. Unlike DeepSpeech's they are not cut off at 1.

    Raises `ValueError` for an empty set.
    """
    if not transcriptions:
        raise ValueError('no transcriptions: no error rates')
    wer = rate(sum(t.word_distance for t in transcriptions), sum(t.word_length for t in transcriptions))
    cer = rate(sum(t.char_distance for t in transcriptions), sum(t.char_length for t in transcriptions))
    return wer, cer, sum(t.loss for t in transcriptions) / len(transcriptions)


def rate(distance: int, length: int) -> float:
    """Errors per unit said. Where nothing was said, 0 for hearing nothing and 1 for hearing anything."""
    if length:
        return distance / length
    return 1.0 if distance else 0.0
