"""The voices of eSpeak NG: a language, and a variant that is the speaker."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from deepspeech_training.errors import FlagError
from espeak_corpus.library import Espeak

PLAIN = 'plain'
"""The name of the speaker without a variant."""


@dataclass(frozen=True, order=True)
class Voice:
    """`language` is a code as eSpeak lists it (`en-us`), `variant` a speaker (`m3`, or `plain`)."""

    language: str
    variant: str

    @property
    def name(self) -> str:
        return f'{self.language}+{self.variant}'


def parse_voices(flag: str, value: str, language: str, espeak: Espeak) -> tuple[Voice, ...]:
    """The voices of a list like `m3,f2,en-gb-scotland+Andy`: variants of `language`, or of the language before the `+`.

    Raises `FlagError` for an unknown or repeated voice, with near ones, and for an empty list.
    """
    languages, variants = espeak.languages(), (PLAIN, *espeak.variants())
    voices: list[Voice] = []
    for entry in filter(None, (part.strip() for part in value.split(','))):
        spoken, _, variant = entry.rpartition('+')
        voice = Voice((spoken or language).lower(), variant or PLAIN)
        check_name(flag, entry, 'language', voice.language, languages)
        check_name(flag, entry, 'variant', voice.variant, variants)
        if voice in voices:
            raise FlagError(f'--{flag}: {entry!r} is there twice')
        voices.append(voice)
    if not voices:
        raise FlagError(f'--{flag} names no voice; --list_voices shows them all')
    return tuple(voices)


def check_name(flag: str, entry: str, kind: str, name: str, known: Iterable[str]) -> None:
    """Raises `FlagError`, with names near to it, for a name that is not among the known ones."""
    names = list(known)
    if name in names:
        return
    folded = {other.lower(): other for other in names}
    near = [folded[match] for match in difflib.get_close_matches(name.lower(), folded, n=5, cutoff=0.5)]
    hint = f'; near it: {", ".join(near)}' if near else ''
    raise FlagError(f'--{flag}: {entry!r}: eSpeak NG has no {kind} {name!r}{hint}; --list_voices shows them all')


def check_disjoint(voices: Mapping[str, tuple[Voice, ...]]) -> None:
    """Raises `FlagError` when a speaker is in two splits, be it in two languages."""
    first: dict[str, tuple[str, Voice]] = {}
    for split, members in voices.items():
        for voice in members:
            other_split, other = first.setdefault(voice.variant, (split, voice))
            if other_split != split:
                raise FlagError(
                    f'--{split}_voices: {voice.name} is the same speaker as {other.name} of --{other_split}_voices; '
                    'a speaker may be in one of train, dev and test only'
                )
