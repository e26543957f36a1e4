"""From when on something is worth telling."""

from __future__ import annotations

from dataclasses import dataclass, field

from deepspeech_training.config import FeatureConfig


@dataclass(frozen=True)
class Settings:
    """The limits of what is told. Levels: 1 is full scale."""

    features: FeatureConfig = field(default_factory=FeatureConfig)
    outlier: float = 5.0  # robust standard deviations of the logarithm of characters a second
    long_seconds: float = 40.0
    silence_seconds: float = 2.0  # before or behind the speech
    least_active: float = 0.05  # share of the time, of audio of a second or more
    clipped: float = 0.001  # share of the samples
    clipped_ms: float = 1.0  # the longest run
    silent: float = 10 ** (-60 / 20)  # peak
    quiet: float = 10 ** (-40 / 20)  # peak
    offset: float = 0.02
