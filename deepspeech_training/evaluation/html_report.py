"""Results as a page that can be searched, sorted and listened to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import IO

from deepspeech_training.evaluation.audio_data import AudioData
from deepspeech_training.evaluation.bootstrap import CONFIDENCE, Interval
from deepspeech_training.evaluation.confusions import most_frequent
from deepspeech_training.evaluation.page import SCRIPT, STYLE
from deepspeech_training.evaluation.results import Result, Results
from deepspeech_training.evaluation.subject import Subject
from deepspeech_training.evaluation.summary import Summary
from deepspeech_training.text.edits import align_words

CONFUSIONS = 30  # of each kind


def write_html(file: IO[str], results: Results, subject: Subject, folder: str) -> None:
    """A page without anything from outside but recordings beyond the limit. `folder`: where it will be."""
    title = f'Test of {subject.settings.get("model", "a model")}'
    file.write(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n<h1>{escape(title)}</h1>\n'
    )
    settings = ', '.join(f'{name} {value}' for name, value in subject.settings.items() if name != 'model')
    file.write(f'<p>{escape(settings)}</p>\n')
    overall = results.overall()
    file.write(_summaries([*results.summaries, overall] if len(results.summaries) > 1 else results.summaries))
    file.write(_confusions(overall))
    audio = AudioData(folder, subject.limits.audio_bytes, subject.sources)
    _write_utterances(file, results, audio, subject.limits.utterances)
    file.write(f'<script>{SCRIPT}</script>\n</body></html>\n')


def _summaries(summaries: Sequence[Summary]) -> str:
    heads = ('set', 'utterances', 'with errors', 'words', 'WER', '', 'substituted', 'deleted', 'inserted', 'CER', '')
    with_loss = not all(math.isnan(summary.loss) for summary in summaries)
    rows = []
    for summary in summaries:
        counts = (summary.substitutions, summary.deletions, summary.insertions)
        cells = [
            *(summary.utterances, summary.wrong_utterances, summary.words),
            *(_percent(summary.wer), _bounds(summary.bootstrap.wer()), *counts),
            *(_percent(summary.cer), _bounds(summary.bootstrap.cer())),
            *([f'{summary.loss:.3f}'] if with_loss else []),
        ]
        rows.append(f'<tr><td>{escape(summary.name)}</td>{_cells(cells)}</tr>\n')
    titles = _cells([*heads[1:], *(['loss'] if with_loss else [])], 'th')
    return (
        f'<table id="sets"><thead><tr><th>{heads[0]}</th>{titles}</tr></thead>\n'
        f'<tbody>{"".join(rows)}</tbody></table>\n'
        f'<p>In brackets: where the rate of other utterances of the same kind would be, with {CONFIDENCE:.0%} '
        'confidence.</p>\n'
    )


def _confusions(summary: Summary) -> str:
    confusions = summary.confusions
    pairs = [
        (f'{said} → {heard}', count) for (said, heard), count in most_frequent(confusions.substitutions, CONFUSIONS)
    ]
    tables = (
        ('Substituted', pairs),
        ('Deleted', most_frequent(confusions.deletions, CONFUSIONS)),
        ('Inserted', most_frequent(confusions.insertions, CONFUSIONS)),
    )
    return (
        f'<h2>Most confused words</h2>\n<div class="confusions">{"".join(_table(*table) for table in tables)}</div>\n'
    )


def _table(title: str, counts: Iterable[tuple[str, int]]) -> str:
    rows = ''.join(f'<tr><td>{escape(what)}</td>{_cells([count])}</tr>' for what, count in counts)
    return f'<table><thead><tr><th>{title}</th><th class="number">times</th></tr></thead><tbody>{rows}</tbody></table>'


def _write_utterances(file: IO[str], results: Results, audio: AudioData, most: int) -> None:
    options = ''.join(f'<option value="{number}">{escape(name)}</option>' for number, name in enumerate(results.names))
    heads = ''.join(
        f'<th class="number" data-key="{key}"><button>{title}</button></th>'
        for key, title in (('wer', 'WER'), ('errors', 'errors'), ('words', 'words'), ('cer', 'CER'), ('loss', 'loss'))
    )
    left_out = f' (the worst {most} of {len(results)})' if most and len(results) > most else ''
    file.write(
        f'<h2>Utterances{left_out}</h2>\n<p class="key">Above what was said, below what was heard: '
        '<span class="substitution">substituted</span>, <span class="deletion">deleted</span>, '
        '<span class="insertion">inserted</span>.</p>\n<div class="controls">'
        '<label>Text or file <input id="text" type="search"></label>'
        f'<label>Set <select id="set"><option value="">all</option>{options}</select></label>'
        '<label><input id="wrong" type="checkbox"> only with errors</label><span id="shown"></span></div>\n'
        f'<table id="utterances"><thead><tr>{heads}<th>audio</th>'
        '<th data-key="file"><button>utterance</button></th></tr></thead>\n<tbody>\n'
    )
    worst = results.worst_first()
    for result in results.read(itertools.islice(worst, most or None)):
        file.write(_row(result, results.names.index(result.set_name), audio))
    file.write('</tbody></table>\n')
    if audio.outside:
        file.write(
            f'<p>{audio.embedded} recordings are in this page, {audio.outside} are not: they play as long as their '
            'files are where they were, and not at all where they are no files of their own.</p>\n'
        )


def _row(result: Result, set_number: int, audio: AudioData) -> str:
    one = result.transcription
    loss = '' if math.isnan(one.loss) else f'{one.loss:.3f}'
    data: dict[str, object] = {
        'set': set_number,
        'wer': one.wer,
        'errors': one.word_distance,
        'words': one.word_length,
        'cer': one.cer,
        'loss': loss or 0,
        'file': one.wav_filename,
    }
    attributes = ''.join(f' data-{name}="{escape(str(value))}"' for name, value in data.items())
    words = ' '.join(
        f'<span class="word {edit.kind}"><b>{escape(edit.said)}</b><i>{escape(edit.heard)}</i></span>'
        for edit in align_words(one.src.split(), one.res.split())
    )
    numbers = _cells([_percent(one.wer), one.word_distance, one.word_length, _percent(one.cer), loss])
    source = audio.source(one.wav_filename)
    player = f'<audio controls preload="none" src="{escape(source)}"></audio>' if source else ''
    return (
        f'<tr{attributes}>{numbers}<td>{player}</td>'
        f'<td class="text">{words}<div class="file">{escape(one.wav_filename)}</div></td></tr>\n'
    )


def _cells(values: Iterable[object], kind: str = 'td') -> str:
    return ''.join(f'<{kind} class="number">{escape(str(value))}</{kind}>' for value in values)


def _percent(rate: float) -> str:
    return f'{100 * rate:.1f}%'


def _bounds(interval: Interval) -> str:
    return f'[{100 * interval.low:.1f}, {100 * interval.high:.1f}]'
