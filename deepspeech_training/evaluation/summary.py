"""What is known of a test set as a whole."""

from __future__ import annotations

from collections.abc import Iterable

from deepspeech_training.evaluation.bootstrap import Bootstrap
from deepspeech_training.evaluation.confusions import Confusions
from deepspeech_training.text.edits import align_words
from deepspeech_training.text.metrics import Transcription, rate


class Summary:
    """Counts over the utterances of a set, or of several; their number does not matter for the memory it takes."""

    def __init__(self, name: str, number: int = 0) -> None:
        """`number`: of the set, among those of the run."""
        self.name = name
        self.utterances = 0
        self.wrong_utterances = 0  # with a word that is wrong
        self.words = 0
        self.substitutions = 0
        self.deletions = 0
        self.insertions = 0
        self.characters = 0
        self.char_distance = 0
        self.total_loss = 0.0
        self.confusions = Confusions()
        self.bootstrap = Bootstrap(number)

    def add(self, line: int, one: Transcription) -> None:
        """The utterance that is on this `line` of the set."""
        self.utterances += 1
        self.wrong_utterances += one.word_distance > 0
        self.words += one.word_length
        self.substitutions += one.substitutions
        self.deletions += one.deletions
        self.insertions += one.insertions
        self.characters += one.char_length
        self.char_distance += one.char_distance
        self.total_loss += one.loss
        if one.word_distance:
            self.confusions.add(align_words(one.src.split(), one.res.split()))
        self.bootstrap.add(line, one.word_distance, one.word_length, one.char_distance, one.char_length)

    @classmethod
    def of_all(cls, name: str, summaries: Iterable[Summary]) -> Summary:
        """The utterances of all of them together."""
        overall = cls(name)
        for summary in summaries:
            overall.utterances += summary.utterances
            overall.wrong_utterances += summary.wrong_utterances
            overall.words += summary.words
            overall.substitutions += summary.substitutions
            overall.deletions += summary.deletions
            overall.insertions += summary.insertions
            overall.characters += summary.characters
            overall.char_distance += summary.char_distance
            overall.total_loss += summary.total_loss
            overall.confusions.add_all(summary.confusions)
            overall.bootstrap.add_all(summary.bootstrap)
        return overall

    @property
    def word_distance(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def wer(self) -> float:
        """Word errors per word said."""
        return rate(self.word_distance, self.words)

    @property
    def cer(self) -> float:
        """Character errors per character said."""
        return rate(self.char_distance, self.characters)

    @property
    def loss(self) -> float:
        """Mean over the utterances; not a number where it is not known, or there are none."""
        return self.total_loss / self.utterances if self.utterances else float('nan')
