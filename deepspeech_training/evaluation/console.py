"""The report that is printed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from deepspeech_training.evaluation.bootstrap import CONFIDENCE, Interval
from deepspeech_training.evaluation.confusions import most_frequent
from deepspeech_training.evaluation.results import Results
from deepspeech_training.evaluation.summary import Summary

LINE = '-' * 80


def print_summary(summary: Summary) -> None:
    """The rates of a set, in DeepSpeech's form, then what they are made of and how sure they are."""
    loss = '' if math.isnan(summary.loss) else f', loss: {summary.loss:f}'
    print(f'Test on {summary.name} - WER: {summary.wer:f}, CER: {summary.cer:f}{loss}')
    print(
        f' - {summary.utterances} utterances, {summary.words} words: {summary.substitutions} substituted, '
        f'{summary.deletions} deleted, {summary.insertions} inserted; {CONFIDENCE:.0%} confidence: '
        f'WER {as_text(summary.bootstrap.wer())}, CER {as_text(summary.bootstrap.cer())}'
    )


def print_report(results: Results, set_number: int, report_count: int) -> None:
    """The summary of a set, its best, median and worst samples, and so many of the most frequent confusions."""
    summary = results.summaries[set_number]
    print_summary(summary)
    if not report_count or not summary.utterances:
        return
    ranked = results.ranking(set_number)
    count = min(report_count, len(ranked))
    middle = max(0, (len(ranked) - count) // 2)
    for title, chosen in (
        ('Best WER', ranked[:count]),
        ('Median WER', ranked[middle : middle + count]),
        ('Worst WER', ranked[len(ranked) - count :]),
    ):
        print(f'{title}:\n{LINE}')
        for result in results.read(chosen):
            one = result.transcription
            loss = '' if math.isnan(one.loss) else f', loss: {one.loss:f}'
            print(f'WER: {one.wer:f}, CER: {one.cer:f}{loss}')
            print(f' - wav: {one.wav_filename}\n - src: "{one.src}"\n - res: "{one.res}"\n{LINE}')
    print_confusions(summary, report_count)


def print_confusions(summary: Summary, count: int) -> None:
    """The most frequent of each kind, if there are any."""
    confusions = summary.confusions
    pairs = {f'{said} > {heard}': number for (said, heard), number in most_frequent(confusions.substitutions, count)}
    _print_counts('Most substituted', pairs)
    _print_counts('Most deleted', dict(most_frequent(confusions.deletions, count)))
    _print_counts('Most inserted', dict(most_frequent(confusions.insertions, count)))


def _print_counts(title: str, counts: Mapping[Any, int]) -> None:
    if counts:
        print(f'{title}: ' + ', '.join(f'{what} ({number})' for what, number in counts.items()))


def as_text(interval: Interval) -> str:
    """`0.081 to 0.123`."""
    return f'{interval.low:.3f} to {interval.high:.3f}'
