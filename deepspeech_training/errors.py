"""The exceptions a user can meet.

`cli` prints them without a traceback and ends with `exit_status`. Every message names the
file, the line, the value and the way out, as far as they apply.
"""

from __future__ import annotations


class UserError(Exception):
    """Something the user can put right: a flag, a data file, a checkpoint."""

    exit_status = 2


class FlagError(UserError):
    """A flag that is unknown, malformed or does not fit the others."""


class DataError(UserError):
    """A CSV file, a transcript, an audio file or an alphabet that cannot be used."""


class CheckpointError(UserError):
    """A checkpoint that is missing, damaged or does not fit the flags."""


class ExportError(UserError):
    """An export that cannot be written where the flags say, or as they say."""


class ModelError(UserError):
    """A file or folder that is no model, or one that is damaged or of another version."""


class ScorerError(UserError):
    """A language model that cannot be read, or that does not fit the alphabet."""


class JobError(UserError):
    """Another process of a job of several has ended, so that this one cannot go on."""

    exit_status = 1


class OutOfMemoryError(UserError):
    """A batch, or the model, that does not fit into the memory of a device."""


class TrainingDivergedError(UserError):
    """The loss was not finite for too many steps in a row."""

    exit_status = 3


class TrainingInterruptedError(UserError):
    """A signal has ended training; its last state is saved."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_status = 128 + signal_number  # what a shell reports for a program that the signal ended
