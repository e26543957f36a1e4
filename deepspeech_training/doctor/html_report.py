"""The report as one page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby

from deepspeech_training.doctor.kinds import KINDS
from deepspeech_training.doctor.plots import as_svg
from deepspeech_training.doctor.report import Report, SetFigures
from deepspeech_training.doctor.text_report import duration, listed, plural, verdict
from deepspeech_training.text.alphabet import describe_character

STYLE = """
:root { color-scheme: light dark; --bar: #4477aa; --line: #8884; --error: #cc3311; --warning: #b36b00; --note: #777; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 0.5rem 0; }
th, td { text-align: left; padding: 0.2rem 0.8rem 0.2rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.path { overflow-wrap: anywhere; }
.plots { display: flex; flex-wrap: wrap; gap: 1rem; }
.plots svg { width: 21rem; max-width: 100%; }
svg text { font-size: 11px; fill: currentColor; }
svg rect { fill: var(--bar); }
svg path { stroke: var(--line); }
.error { color: var(--error); } .warning { color: var(--warning); } .note { color: var(--note); }
summary { cursor: pointer; }
"""


def as_html(report: Report, shown: int) -> str:
    """`shown`: as many findings of each kind are listed, the others are counted."""
    title = 'Data doctor'
    body = [
        f'<h1>{title}</h1>',
        f'<p><strong>{escape(verdict(report))}</strong></p>',
        '<h2>Data sets</h2>',
        *_overview(report.sets),
        *(part for each in report.sets for part in _set_parts(each)),
        '<h2>Findings</h2>',
        *_findings(report, shown),
        '<h2>Characters</h2>',
        *_characters(report),
    ]
    return '\n'.join(
        [
            '<!DOCTYPE html>',
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<title>{title}: {escape(_clean(", ".join(each.path for each in report.sets)))}</title>',
            f'<style>{STYLE}</style></head><body>',
            *body,
            '</body></html>\n',
        ]
    )


def _overview(sets: Sequence[SetFigures]) -> Iterator[str]:
    heads = ('set', 'rows', 'usable', 'audio', 'characters', 'speakers', 'sample rates', 'channels', 'formats')
    rows = [
        (
            each.path,
            each.rows,
            each.usable,
            duration(each.seconds),
            each.characters,
            len(each.speakers) or '',
            listed(each.sample_rates, ' Hz'),
            listed(each.channels),
            listed(each.formats),
        )
        for each in sets
    ]
    yield from _table(heads, rows)


def _set_parts(each: SetFigures) -> Iterator[str]:
    yield f'<h3>{_text(each.path)}</h3>'
    yield '<div class="plots">'
    yield from (as_svg(one, name) for name, one in each.histograms.items())
    yield '</div>'
    if each.speakers:
        yield f'<p>{plural(len(each.speakers), "speaker")}: {_text(listed(each.speakers))}</p>'


def _findings(report: Report, shown: int) -> Iterator[str]:
    if not report.findings:
        yield '<p>Nothing was found.</p>'
    for kind, group in groupby(report.findings, key=lambda finding: finding.kind):
        findings = list(group)
        about = KINDS[kind]
        yield f'<details{" open" if len(findings) <= shown else ""}><summary>'
        yield f'<span class="{about.severity}">{about.severity}</span> {escape(about.title)}: {len(findings):,}'
        yield f'</summary><p>{escape(about.advice)}</p>'
        problems = [each.problem for each in findings[:shown]]
        rows = [(each.csv, each.line or '', each.path, each.message) for each in problems]
        yield from _table(('set', 'line', 'audio', 'what'), rows)
        if len(findings) > shown:
            yield f'<p>and {len(findings) - shown:,} more</p>'
        yield '</details>'


def _characters(report: Report) -> Iterator[str]:
    rows = [
        (describe_character(each.character), each.count, each.first, '' if each.known else 'not in the alphabet')
        for each in report.characters
    ]
    yield from _table(('character', 'count', 'first in', ''), rows)
    if report.unused_labels:
        yield f'<p>In the alphabet only: {_text(", ".join(map(describe_character, report.unused_labels)))}</p>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield '<table><tr>'
    yield from (f'<th>{escape(head)}</th>' for head in heads)
    yield '</tr>'
    for row in rows:
        yield f'<tr>{"".join(map(_cell, row))}</tr>'
    yield '</table>'


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f'<td class="number">{value:,}</td>'
    return f'<td class="path">{_text(str(value))}</td>'


def _text(text: str) -> str:
    return escape(_clean(text))


def _clean(text: str) -> str:
    """What a page cannot have is shown by its code: control characters, and bytes of names that are no UTF-8."""
    return ''.join(c if c.isprintable() or c == ' ' else c.encode('unicode_escape').decode() for c in text)
