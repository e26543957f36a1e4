"""The language of `--augment`: `overlay[p=0.5,source=noise.csv,snr=50:20~10]`, with DeepSpeech 0.9's names.

What is wrong about a specification is found here, without data and without TensorFlow.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deepspeech_training.errors import FlagError

DOMAINS = ('sample', 'signal', 'spectrogram', 'features')
"""What an operation changes, in the order in which it happens: audio as recorded, audio as the model hears it, power
spectrogram, MFCCs."""

MULTI_DOMAIN = DOMAINS[1:]

NUMBER = r'[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?'
RANGE = re.compile(rf'({NUMBER})(?::({NUMBER}))?(?:~({NUMBER}))?')
SPEC = re.compile(r'([^\[\]]*)(?:\[([^\[\]]*)\])?')


@dataclass(frozen=True)
class Limits:
    """What a parameter may be."""

    least: float
    most: float
    whole: bool = False

    def __str__(self) -> str:
        return f'between {self.least:g} and {self.most:g}'


@dataclass(frozen=True)
class ValueRange:
    """A number that may move from `start` to `end` over training, with a uniform `spread` to both sides."""

    start: float
    end: float
    spread: float
    limits: Limits

    @property
    def moves(self) -> bool:
        """Whether it depends on how far training has come."""
        return self.start != self.end

    def pick(self, clock: float, random: np.random.Generator) -> float:
        """A value for a moment of training, from 0 (its start) to 1 (its end).

        The spread does not reach beyond the limits. Whole numbers are rounded, halves to even ones.
        """
        value = self.start + (self.end - self.start) * clock
        if self.spread:
            value = random.uniform(value - self.spread, value + self.spread)
        value = min(max(value, self.limits.least), self.limits.most)
        return float(round(value)) if self.limits.whole else value


@dataclass(frozen=True)
class Operation:
    """A kind of augmentation: where it works, and its parameters beside `p`, each with a default and its limits."""

    domains: tuple[str, ...]  # the first is the default
    parameters: Mapping[str, tuple[str, Limits]]
    needs_source: bool = False


@dataclass(frozen=True)
class AugmentSpec:
    """One `--augment`."""

    text: str
    name: str
    p: float  # share of the samples
    domain: str
    ranges: Mapping[str, ValueRange]
    source: str = ''

    @property
    def moves(self) -> bool:
        """Whether what it does depends on how far training has come."""
        return any(each.moves for each in self.ranges.values())


STDDEV = Limits(0, 1e6)
COUNT = Limits(0, 1000, whole=True)

OPERATIONS: dict[str, Operation] = {
    'overlay': Operation(
        ('sample',),
        {'snr': ('3', Limits(-200, 200)), 'layers': ('1', Limits(0, 100, whole=True))},
        needs_source=True,
    ),
    'reverb': Operation(('sample',), {'delay': ('20', Limits(0, 10000)), 'decay': ('10', Limits(0, 200))}),
    'resample': Operation(('sample',), {'rate': ('8000', Limits(500, 384000, whole=True))}),
    'codec': Operation(('sample',), {'bitrate': ('3200', Limits(500, 512000, whole=True))}),
    'volume': Operation(('sample',), {'dbfs': ('3.0103', Limits(-200, 3.0103))}),
    'pitch': Operation(('spectrogram',), {'pitch': ('1.075~0.125', Limits(0.1, 10))}),
    'tempo': Operation(('spectrogram',), {'factor': ('1.1', Limits(0.1, 10))}),
    'warp': Operation(
        ('spectrogram',),
        {'nt': ('1', COUNT), 'nf': ('1', COUNT), 'wt': ('0.1', Limits(0, 10)), 'wf': ('0', Limits(0, 10))},
    ),
    'frequency_mask': Operation(('spectrogram',), {'n': ('3', COUNT), 'size': ('2', Limits(0, 1e5, whole=True))}),
    'time_mask': Operation(
        ('spectrogram', 'signal', 'features'), {'n': ('3', COUNT), 'size': ('10', Limits(0, 1e6))}
    ),
    'dropout': Operation(('spectrogram', 'signal', 'features'), {'rate': ('0.05', Limits(0, 1))}),
    'add': Operation(('features', 'signal', 'spectrogram'), {'stddev': ('5', STDDEV)}),
    'multiply': Operation(('features', 'signal', 'spectrogram'), {'stddev': ('5', STDDEV)}),
}  # fmt: skip


def parse_augmentations(texts: Sequence[str]) -> list[AugmentSpec]:
    """The augmentations in the order in which they happen: by domain, then as given.

    Raises `FlagError`, which names every problem and quotes the part that is wrong.
    """
    specs, problems = [], []
    for text in texts:
        try:
            specs.append(parse_augmentation(text))
        except ValueError as error:
            problems.append(f'--augment={text}: {error}')
    if problems:
        raise FlagError('\n'.join(problems))
    return sorted(specs, key=lambda spec: DOMAINS.index(spec.domain))


def parse_augmentation(text: str) -> AugmentSpec:
    """One augmentation. Raises `ValueError`, which quotes the part that is wrong."""
    match = SPEC.fullmatch(text.strip())
    if match is None:
        raise ValueError(_about_brackets(text))
    name = match[1].strip()
    if name not in OPERATIONS:
        raise ValueError(f'{name!r} is no augmentation{_nearest(name, OPERATIONS)}')
    operation = OPERATIONS[name]
    given = _pairs(match[2] or '')
    known = ['p', *operation.parameters]
    known += ['source'] if operation.needs_source else []
    known += ['domain'] if len(operation.domains) > 1 else []
    for key, value in given.items():
        if key not in known:
            raise ValueError(f"'{key}={value}': {name} has no {key!r}{_nearest(key, known)}")
    if operation.needs_source and not given.get('source'):
        raise ValueError(
            f'source is missing: write {name}[source=noise.csv], with a CSV file, a folder or an audio file'
        )
    domain = given.get('domain', operation.domains[0])
    if domain not in operation.domains:
        raise ValueError(f"'domain={domain}': must be one of {', '.join(sorted(operation.domains, key=DOMAINS.index))}")
    share = parse_range('p', given.get('p', '1'), Limits(0, 1))
    if share.moves or share.spread:
        raise ValueError(f"'p={given['p']}': must be one number, not a range")
    ranges = {
        key: parse_range(key, given.get(key, default), limits)
        for key, (default, limits) in operation.parameters.items()
    }
    return AugmentSpec(text.strip(), name, share.start, domain, ranges, given.get('source', ''))


def parse_range(name: str, text: str, limits: Limits) -> ValueRange:
    """`1.5`, `1:2`, `1~0.5` or `1:2~0.5`: start, end and spread. Raises `ValueError` that quotes `name=text`."""
    match = RANGE.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"'{name}={text}': must be a number or a range: START:END moves over training, ~SPREAD is random to both "
            'sides, as in 10:20~5'
        )
    start, end, spread = (float(part) for part in (match[1], match[2] or match[1], match[3] or '0'))
    for value in (start, end):
        if not limits.least <= value <= limits.most:
            raise ValueError(f"'{name}={text}': {value:g} is not {limits}")
        if limits.whole and not value.is_integer():
            raise ValueError(f"'{name}={text}': {value:g} is not a whole number")
    if not 0 <= spread < math.inf:
        raise ValueError(f"'{name}={text}': the spread behind ~ is {spread:g}, and must be 0 or more")
    return ValueRange(start, end, spread, limits)


def _pairs(text: str) -> dict[str, str]:
    """`key=value,key=value`. Raises `ValueError`."""
    pairs: dict[str, str] = {}
    for part in text.split(',') if text.strip() else ():
        key, equals, value = (word.strip() for word in part.partition('='))
        if not key or not equals or not value:
            raise ValueError(f'{part.strip()!r}: write each parameter as name=value, with commas between them')
        if key in pairs:
            raise ValueError(f"'{key}={value}': {key} is given twice")
        pairs[key] = value
    return pairs


def _about_brackets(text: str) -> str:
    opening = text.find('[')
    if opening < 0:
        return f"{text[text.index(']') :]!r}: there is no '[' before it"
    if not text.rstrip().endswith(']'):
        closing = text.find(']', opening)
        if closing < 0:
            return f"{text[opening:]!r}: its ']' is missing"
        return f"{text[closing + 1 :].strip()!r} behind ']': write a --augment of its own for each augmentation"
    return f"{text[opening:]!r}: there is more than one '[' or ']'"


def _nearest(word: str, known: Sequence[str] | Mapping[str, Operation]) -> str:
    close = difflib.get_close_matches(word, list(known), 1)
    return f'; did you mean {close[0]}?' if close else f'; there are {", ".join(known)}'
