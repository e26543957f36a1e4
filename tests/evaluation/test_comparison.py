"""Two models on the same utterances."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deepspeech_training.errors import DataError
from deepspeech_training.evaluation.comparison import compare, read_baseline
from deepspeech_training.evaluation.reports import write_report
from deepspeech_training.evaluation.results import Results
from deepspeech_training.evaluation.subject import Subject
from deepspeech_training.text.metrics import Transcription


def run(wrong_words: list[int]) -> Results:
    """Utterances of ten words with so many wrong."""
    results = Results(['set'])
    for line, wrong in enumerate(wrong_words):
        said = ['word'] * 10
        heard = ['wird'] * wrong + said[wrong:]
        results.add(0, line, Transcription.of(f'{line}.wav', ' '.join(said), ' '.join(heard), 0.0))
    return results


def test_a_small_change_shows_where_the_sets_are_alike(tmp_path: Path) -> None:
    """Every third utterance has an error less; the intervals of both alone overlap widely."""
    random = np.random.default_rng(0)
    before = random.integers(1, 9, 90)
    after = before - (np.arange(90) % 3 == 0)
    path = str(tmp_path / 'before.json')
    with run(before.tolist()) as results:
        write_report('--json', '.json', path, results, Subject({'model': 'old'}))
        old = results.overall().bootstrap.wer()
    with run([*after.tolist(), 5]) as results:  # and one that is new
        new = results.overall().bootstrap.wer()
        found = compare(results, read_baseline(path))
    assert new.high > old.low + 0.01
    assert (found.utterances, found.better, found.worse) == (90, 30, 0)
    assert found.baseline_wer == pytest.approx(before.mean() / 10)
    assert found.wer - found.baseline_wer == pytest.approx(-1 / 30)
    assert -0.055 < found.change.low < -1 / 30 < found.change.high < -0.015
    assert str(found).splitlines()[0].startswith(f'Compared with old ({path}) on 90 utterances - WER: ')
    assert '\n - change -0.033, 95% confidence: -0.0' in str(found)
    assert str(found).endswith('; 30 utterances better, 0 worse')


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    for content, reason in (
        ('{', 'is no report'),
        ('[]', 'is no report'),
        ('{"utterances": [], "model": ""}', 'none of'),
    ):
        (tmp_path / 'x.json').write_text(content)
        with run([1]) as results, pytest.raises(DataError, match=f'--compare=.*{reason}'):
            compare(results, read_baseline(str(tmp_path / 'x.json')))
    with pytest.raises(DataError, match=r'--compare=.*none\.json: cannot be read: No such file'):
        read_baseline(str(tmp_path / 'none.json'))
