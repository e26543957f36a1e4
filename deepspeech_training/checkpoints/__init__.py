"""Checkpoints, in DeepSpeech's format: the last ones of a training and the best one by dev loss."""

from __future__ import annotations

from deepspeech_training.checkpoints.fitting import Geometry, belongs_to
from deepspeech_training.checkpoints.folder import BEST, LAST, Found, Kind, find_checkpoint, named_checkpoints
from deepspeech_training.checkpoints.run_state import RunState
from deepspeech_training.checkpoints.store import CheckpointStore, Restored
from deepspeech_training.checkpoints.variables import GraphVariables

__all__ = [
    'BEST',
    'LAST',
    'CheckpointStore',
    'Found',
    'Geometry',
    'GraphVariables',
    'Kind',
    'Restored',
    'RunState',
    'belongs_to',
    'find_checkpoint',
    'named_checkpoints',
]
