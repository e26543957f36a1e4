"""What a report is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from deepspeech_training.config import DecodingConfig
from deepspeech_training.data.manifest import Sample
from deepspeech_training.data.sources import Source


@dataclass(frozen=True)
class PageLimits:
    """What a browser can be asked for."""

    utterances: int = 5000  # the worst ones; 0: all
    audio_bytes: int = 64 * 1024 * 1024  # of all recordings in the page


@dataclass(frozen=True)
class Subject:
    """A run: its settings by name, where its recordings are that are no files of their own, and how it is shown."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)
    limits: PageLimits = PageLimits()

    @classmethod
    def of(
        cls,
        model: str,
        decoding: DecodingConfig,
        sets: Mapping[str, Iterable[Sample]],
        limits: PageLimits | None = None,
    ) -> Subject:
        """A test of `model` on `sets`."""
        chosen = {name: value for name, value in asdict(decoding).items() if value not in ('', None, ())}
        samples = (sample for rows in sets.values() for sample in rows)
        sources = {sample.path: sample.source for sample in samples if sample.source}
        return cls({'model': model, **chosen}, sources, limits or PageLimits())
