"""Which utterances are left out for their length."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from deepspeech_training.audio.reading import resampled_length
from deepspeech_training.config import FeatureConfig
from deepspeech_training.importing.conversion import Converted


@dataclass(frozen=True)
class Limits:
    """What an utterance may be."""

    min_seconds: float
    max_seconds: float  # 0: any
    max_chars_per_second: float  # 0: any
    features: FeatureConfig  # of the model that is to be trained


def length_problem(label: str, audio: Converted, limits: Limits) -> str:
    """Why an utterance does not fit; '' where it does. What training would refuse does not fit, whatever the limits.

    CTC needs a frame for each character, and one more between two equal ones (Graves et al., "Connectionist Temporal
    Classification", 2006).
    """
    seconds = audio.frames / audio.sample_rate
    frames = limits.features.frames(resampled_length(audio.frames, audio.sample_rate, limits.features.sample_rate))
    if seconds < limits.min_seconds or not frames:
        return 'the audio is too short'
    if limits.max_seconds and seconds > limits.max_seconds:
        return 'the audio is too long'
    needed = len(label) + sum(first == second for first, second in pairwise(label))
    if needed > frames:
        return 'the transcript is too long for its audio'
    if limits.max_chars_per_second and len(label) / seconds > limits.max_chars_per_second:
        return 'the transcript has too many characters a second'
    return ''
