"""Reports in every format, read back."""

from __future__ import annotations

import base64
import csv
import io
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from deepspeech_training.errors import FlagError, UserError
from deepspeech_training.evaluation.audio_data import AudioData, data_uri
from deepspeech_training.evaluation.console import print_report
from deepspeech_training.evaluation.reports import check_output, write_file, write_report
from deepspeech_training.evaluation.results import Results
from deepspeech_training.evaluation.subject import PageLimits, Subject
from deepspeech_training.evaluation.tables import write_deepspeech_json
from deepspeech_training.text.metrics import Transcription
from tests.evaluation.page import Page

EVIL = '<script>alert("&")</script>'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a recording for each utterance."""
    random = np.random.default_rng(0)
    for name in 'abcd':
        samples = random.integers(-3000, 3000, 1600).astype(np.int16)
        soundfile.write(tmp_path / f'{name}.wav', samples, 8000, subtype='PCM_16')
    return tmp_path


@pytest.fixture
def results(folder: Path) -> Iterator[Results]:
    with Results(['set.csv', f'{EVIL}.csv']) as made:
        for set_number, name, src, res, loss in (
            (0, 'a', 'один два', 'один два', 1.0),
            (0, 'b', 'три', 'ри', 3.0),
            (0, 'c', 'три четыре', 'три', 2.0),
            (1, 'd', 'пять', EVIL, 9.0),
        ):
            made.add(set_number, ord(name), Transcription.of(str(folder / f'{name}.wav'), src, res, loss))
        yield made


def names(paths: list[str]) -> list[str]:
    return [Path(path).stem for path in paths]


def test_the_printed_report_shows_rates_and_samples_by_rank(
    results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    print_report(results, 0, 1)
    out = capsys.readouterr().out
    assert out.startswith('Test on set.csv - WER: 0.400000, CER: 0.380952, loss: 2.000000\n')
    assert ' - 3 utterances, 5 words: 1 substituted, 1 deleted, 0 inserted; 95% confidence: WER 0.' in out
    best, median, worst = (out.index(title) for title in ('Best WER', 'Median WER', 'Worst WER'))
    assert 'a.wav' in out[best:median]
    assert 'c.wav' in out[median:worst]
    assert 'b.wav' in out[worst:]
    assert out.endswith('Most substituted: три > ри (1)\nMost deleted: четыре (1)\n')


def test_a_printed_report_without_samples(results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    print_report(results, 0, 0)
    assert capsys.readouterr().out.count('\n') == 2


def test_json_says_everything(results: Results, folder: Path) -> None:
    path = folder / 'new' / 'report.json'
    write_report('--json', '.json', str(path), results, Subject({'model': 'm', 'beam_width': 3}))
    text = path.read_text(encoding='utf-8')
    assert 'четыре' in text
    report = json.loads(text)
    assert (report['model'], report['beam_width'], report['confidence']) == ('m', 3, 0.95)
    assert [each['name'] for each in report['sets']] == ['set.csv', f'{EVIL}.csv']
    overall = report['overall']
    assert (overall['utterances'], overall['word_length'], overall['wer']) == (4, 6, 0.5)
    low, high = overall['wer_interval']
    assert low < 0.5 < high
    assert overall['deleted'] == [{'said': 'четыре', 'count': 1}]
    assert names([each['wav_filename'] for each in report['utterances']]) == ['d', 'b', 'c', 'a']
    assert report['utterances'][2]['deletions'] == 1


def test_json_has_no_loss_where_none_is_known(folder: Path) -> None:
    with Results(['set']) as results:
        results.add(0, 0, Transcription.of('a.wav', 'one', 'one', float('nan')))
        write_report('--json', '.json', str(folder / 'report.json'), results, Subject())
    report = json.loads((folder / 'report.json').read_text(), parse_constant=pytest.fail)
    assert report['overall']['loss'] is None
    assert report['utterances'][0]['loss'] is None


def test_csv_has_a_row_for_each(results: Results, folder: Path) -> None:
    write_report('--csv', '.csv', str(folder / 'report.csv'), results, Subject())
    with (folder / 'report.csv').open(encoding='utf-8', newline='') as file:
        rows = list(csv.DictReader(file))
    assert names([row['wav_filename'] for row in rows]) == ['d', 'b', 'c', 'a']
    assert rows[0]['res'] == EVIL
    assert (rows[2]['set'], rows[2]['src'], rows[2]['wer'], rows[2]['loss']) == ('set.csv', 'три четыре', '0.5', '2.0')


def test_deepspeechs_json_has_its_fields(results: Results, folder: Path) -> None:
    write_file('--test_output_file', str(folder / 'out.json'), lambda file: write_deepspeech_json(file, results))
    rows = json.loads((folder / 'out.json').read_text(encoding='utf-8'))
    assert names([row['wav_filename'] for row in rows]) == ['d', 'b', 'c', 'a']
    assert rows[2] == {
        'wav_filename': str(folder / 'c.wav'),
        'src': 'три четыре',
        'res': 'три',
        'loss': 2.0,
        'char_distance': 7,
        'char_length': 10,
        'word_distance': 1,
        'word_length': 2,
        'cer': 0.7,
        'wer': 0.5,
    }


def test_the_page_has_every_utterance_aligned_and_its_sound(results: Results, folder: Path) -> None:
    write_report('--html', '.html', str(folder / 'report.html'), results, Subject({'model': EVIL}))
    html = (folder / 'report.html').read_text(encoding='utf-8')
    page = Page(html)
    assert names([row.data['file'] for row in page.rows]) == ['d', 'b', 'c', 'a']
    assert [row.kinds for row in page.rows] == [
        ['substitution'],
        ['substitution'],
        ['equal', 'deletion'],
        ['equal', 'equal'],
    ]
    assert page.rows[0].heard == [EVIL]
    assert (page.rows[2].said, page.rows[2].heard) == (['три', 'четыре'], ['три'])
    assert [row.data['errors'] for row in page.rows] == ['1', '1', '1', '0']
    for row in page.rows:
        samples, rate = row.audio()
        expected, expected_rate = soundfile.read(row.data['file'], dtype='int16')
        assert np.array_equal(samples, expected)
        assert rate == expected_rate
    assert html.count('<script>') == 1
    assert not [tag for tag, attributes in page.tags if tag in ('link', 'img', 'iframe') or 'http' in str(attributes)]
    assert 'loss' in page.texts


def test_its_program_is_one(results: Results, folder: Path) -> None:
    node = shutil.which('node')
    if node is None:
        pytest.skip('there is no node')
    write_report('--html', '.html', str(folder / 'report.html'), results, Subject())
    (folder / 'report.js').write_text(Page((folder / 'report.html').read_text(encoding='utf-8')).script)
    subprocess.run([node, '--check', str(folder / 'report.js')], check=True, timeout=60)


def test_a_page_has_limits(results: Results, folder: Path) -> None:
    size = len(data_uri(str(folder / 'd.wav')))
    limits = PageLimits(utterances=3, audio_bytes=size)
    write_report('--html', '.html', str(folder / 'sub' / 'report.html'), results, Subject(limits=limits))
    page = Page((folder / 'sub' / 'report.html').read_text(encoding='utf-8'))
    assert names([row.data['file'] for row in page.rows]) == ['d', 'b', 'c']
    assert 'Utterances (the worst 3 of 4)' in page.texts
    assert page.rows[0].source.startswith('data:')
    assert [row.source for row in page.rows[1:]] == ['../b.wav', '../c.wav']
    assert any('1 recordings are in this page, 2 are not' in text for text in page.texts)


@pytest.mark.parametrize(('format_name', 'kind'), [('FLAC', 'flac'), ('OGG', 'ogg'), ('MP3', 'mpeg')])
def test_compressed_recordings_stay_as_they_are(format_name: str, kind: str, folder: Path) -> None:
    path = folder / 'sound'
    soundfile.write(path, np.zeros(8000, np.float32), 8000, format=format_name)
    assert data_uri(str(path)).startswith(f'data:audio/{kind};base64,')


@pytest.mark.parametrize('subtype', ['PCM_16', 'PCM_U8', 'ULAW', 'PCM_24', 'FLOAT'])
def test_others_keep_all_their_samples(subtype: str, folder: Path) -> None:
    path = folder / 'stereo.wav'
    soundfile.write(path, np.random.default_rng(0).uniform(-1, 1, [800, 2]), 44100, subtype=subtype)
    _, _, content = data_uri(str(path)).partition('data:audio/flac;base64,')
    found, rate = soundfile.read(io.BytesIO(base64.b64decode(content)))
    np.testing.assert_allclose(found, soundfile.read(path)[0], rtol=0, atol=2**-23 if subtype == 'FLOAT' else 0)
    assert rate == 44100


def test_recordings_that_cannot_be_in_a_page_are_linked(folder: Path) -> None:
    soundfile.write(folder / 'nine channels.wav', np.zeros([80, 9]), 8000)
    audio = AudioData(str(folder / 'below'), 10_000_000, {})
    assert audio.source(str(folder / 'nine channels.wav')) == '../nine%20channels.wav'
    assert audio.source(str(folder / 'none.wav')) == '../none.wav'
    assert (audio.embedded, audio.outside) == (0, 2)


def test_a_report_that_cannot_be_written_leaves_what_is_there(results: Results, folder: Path) -> None:
    (folder / 'out.json').mkdir()
    (folder / 'out.json' / 'mine').write_text('precious')
    before = sorted(folder.iterdir())
    with pytest.raises(UserError, match=r'--json: cannot write .*out\.json: Is a directory'):
        write_report('--json', '.json', str(folder / 'out.json'), results, Subject())
    with pytest.raises(FlagError, match=r'--json=.*out\.json: is a folder'):
        check_output('--json', str(folder / 'out.json'))
    with pytest.raises(FlagError, match=r'--json=/proc/none/out\.json: cannot be written'):
        check_output('--json', '/proc/none/out.json')
    assert sorted(folder.iterdir()) == before
    assert (folder / 'out.json' / 'mine').read_text() == 'precious'
