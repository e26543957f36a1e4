"""The report for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from deepspeech_training.doctor.kinds import ERROR, KINDS, NOTE, WARNING
from deepspeech_training.doctor.report import Histogram, Report, SetFigures
from deepspeech_training.text.alphabet import describe_character

BAR = 40  # characters of the longest bar
BARS = 12
LISTED = 8  # of rates, formats and the like


def as_text(report: Report, shown: int) -> str:
    """`shown`: as many findings of each kind are listed, the others are counted."""
    lines: list[str] = []
    for each in report.sets:
        lines += [*_set_lines(each), '']
    lines += [_characters(report), '', *_finding_lines(report, shown), verdict(report)]
    return '\n'.join(lines) + '\n'


def verdict(report: Report) -> str:
    """One line on how it is."""
    errors, warnings, notes = (report.count(severity) for severity in (ERROR, WARNING, NOTE))
    lost = sum(each.rows - each.usable for each in report.sets)
    rows = sum(each.rows for each in report.sets)
    counted = f'{plural(errors, "error")}, {plural(warnings, "warning")}, {plural(notes, "note")}'
    return f'{counted}; {lost} of {plural(rows, "row")} cannot be used' if lost else f'{counted}; every row can be used'


def plural(count: int, noun: str) -> str:
    return f'{count:,} {noun}' if count == 1 else f'{count:,} {noun}s'


def duration(seconds: float) -> str:
    """As it is told: hours where there are some, else minutes."""
    return f'{seconds / 3600:,.2f} hours' if seconds >= 3600 else f'{seconds / 60:.1f} minutes'


def listed(counts: Mapping[str, int], unit: str = '') -> str:
    """`16000 Hz (12), 8000 Hz (3)`, the most frequent ones."""
    first = [f'{name}{unit} ({count:,})' for name, count in list(counts.items())[:LISTED]]
    more = len(counts) - len(first)
    return ', '.join([*first, *([f'and {more:,} more'] if more > 0 else [])])


def _set_lines(each: SetFigures) -> Iterator[str]:
    yield each.path
    yield f'  {plural(each.rows, "row")}, {each.usable:,} usable, {duration(each.seconds)} of audio'
    for name, one in each.histograms.items():
        yield f'  {name}: {one.least:.4g} to {one.most:.4g} {one.unit}, median {one.median:.4g}'
    if each.sample_rates:
        yield f'  audio: {listed(each.sample_rates, " Hz")}; channels: {listed(each.channels)}; {listed(each.formats)}'
    if each.speakers:
        yield f'  {plural(len(each.speakers), "speaker")}: {listed(each.speakers)}'
    if 'duration' in each.histograms:
        yield from _bars(each.histograms['duration'])


def _bars(one: Histogram) -> Iterator[str]:
    """Pairs of bins, as bars."""
    pairs = list(
        zip(one.edges[::2], [sum(one.counts[at : at + 2]) for at in range(0, len(one.counts), 2)], strict=False)
    )
    most = max(count for _, count in pairs)
    for start, count in pairs:
        bar = '#' * -(-BAR * count // most)
        yield f'  {start:8.2f} {one.unit} {count:9,} {bar}'.rstrip()


def _characters(report: Report) -> str:
    seen = ''.join(each.character for each in report.characters if each.character.isprintable())
    line = f'{plural(len(report.characters), "character")}, by frequency: {seen!r}'
    if report.unused_labels:
        line += f'; in the alphabet only: {", ".join(map(describe_character, report.unused_labels))}'
    return line


def _finding_lines(report: Report, shown: int) -> Iterator[str]:
    for kind, group in groupby(report.findings, key=lambda finding: finding.kind):
        findings = list(group)
        about = KINDS[kind]
        yield f'{about.severity.upper()} {kind}: {about.title}: {len(findings):,}. {about.advice}'
        yield from (f'  {finding}' for finding in findings[:shown])
        if len(findings) > shown:
            yield f'  and {len(findings) - shown:,} more'
        yield ''
