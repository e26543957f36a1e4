"""Reports for people and programs."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from deepspeech_training.doctor.html_report import as_html
from deepspeech_training.doctor.plots import as_svg, ticks
from deepspeech_training.doctor.report import as_json, histogram
from deepspeech_training.doctor.text_report import as_text
from tests.doctor.sets import examined, sound_set, speech, table, wav

VOID = ('meta', 'link', 'br', 'img', 'input', 'hr')
ODD = '<script>alert("1")</script> & \x07'


class Page(HTMLParser):
    """A page as a browser sees it; elements that are not closed in their order are errors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.addresses: list[str] = []
        self.text = ''
        self.feed(text)
        self.close()
        assert not self.open

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        self.addresses += [value or '' for name, value in attrs if name in ('src', 'href', 'xlink:href')]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def sets(tmp_path: Path) -> tuple[Path, Path]:
    rows = [*sound_set(tmp_path, count=4), ('missing.wav', 'a'), ('q.wav', ODD), *[('missing.wav', 'b')] * 3]
    wav(tmp_path / 'q.wav', speech(80, 3.0))
    train = table(tmp_path / 'train <i>.csv', rows, speaker=['ann', 'bob', '<b>', *['ann'] * 6])
    return train, table(tmp_path / 'test.csv', sound_set(tmp_path, 'test', first=20))


def test_html_is_a_page_of_its_own(sets: tuple[Path, Path]) -> None:
    _, report = examined(*sets)
    text = as_html(report, 2)
    page = Page(text)
    assert page.addresses == []
    assert 'script' not in page.count, 'what is in transcripts is text'
    assert "'<script>alert" in page.text
    assert 'train <i>.csv' in page.text
    assert '\x07' not in text
    assert 'b' not in page.count
    assert page.count['svg'] == 2 * 4
    assert 'and 2 more' in page.text
    assert 'http' not in text
    assert 'url(' not in text


def test_json_says_all(sets: tuple[Path, Path]) -> None:
    _, report = examined(*sets)
    content = json.loads(as_json(report))
    assert [each['path'] for each in content['sets']] == [str(path) for path in sets]
    train = content['sets'][0]
    assert (train['rows'], train['usable']) == (9, 4)
    assert train['seconds'] == pytest.approx(7.0)
    assert train['sample_rates'] == {'16000': 5}
    assert train['findings'] == {'audio': 4, 'alphabet': 1, 'invisible': 1, 'digits': 1}
    assert sum(train['histograms']['duration']['counts']) == 5
    first = content['findings'][0]
    assert first == {
        'kind': 'audio',
        'severity': 'error',
        'set': str(sets[0]),
        'line': 6,
        'audio': str(sets[0].parent / 'missing.wav'),
        'message': 'the audio file does not exist',
    }
    letters = {each['character']: each for each in content['characters']}
    assert not letters['<']['known']
    assert letters['<']['first'] == f'{sets[0]}:7'
    assert letters['a']['known']


def test_text_lists_the_first_and_counts_the_rest(sets: tuple[Path, Path]) -> None:
    _, report = examined(*sets)
    lines = as_text(report, 2).splitlines()
    place = lines.index('ERROR audio: Audio files that cannot be used: 4. Copy, download or convert them again.')
    audio = sets[0].parent / 'missing.wav'
    assert lines[place + 1] == f'  {sets[0]}:6: {audio}: the audio file does not exist'
    assert lines[place + 3] == '  and 2 more'
    assert lines[-1].endswith('5 of 12 rows cannot be used')
    assert '\x07' not in '\n'.join(lines)


def test_figures_of_a_set_without_audio(tmp_path: Path) -> None:
    _, report = examined(table(tmp_path / 'train.csv', [('missing.wav', '')]))
    assert (report.sets[0].usable, report.sets[0].seconds, report.sets[0].histograms) == (0, 0.0, {})
    Page(as_html(report, 5))
    assert '1 of 1 row cannot be used' in as_text(report, 5)


def test_a_histogram_is_well_formed_and_as_high_as_its_counts() -> None:
    one = histogram(np.array([1.0, 1.0, 1.0, 5.0]), 's')
    assert one is not None
    assert (one.least, one.median, one.most) == (1, 1, 5)
    image = ElementTree.fromstring(as_svg(one, 'a & b'))
    heights = [float(bar.get('height', '')) for bar in image.iter('rect')]
    assert heights[0] == 150
    assert heights[-1] == 50
    assert sum(heights) == 200


def test_all_values_alike() -> None:
    one = histogram(np.array([2.0, np.nextafter(2.0, 3.0)]), 's')
    assert one is not None
    assert sum(one.counts) == 2
    ElementTree.fromstring(as_svg(one, 'same'))


@pytest.mark.parametrize(
    ('low', 'high', 'expected'),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (0.36, 4.6, [1, 2, 3, 4]),
        (-14.8, -7.5, [-14, -12, -10, -8]),
        (0, 85, [0, 20, 40, 60, 80]),
        (7, 7.3, [7, 7.1, 7.2, 7.3]),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == expected
