"""bin/evaluate.py with checkpoints and exports, with good test sets and bad ones."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import evaluate
import numpy as np
import pytest

from deepspeech_training.config import Config, ExportConfig
from deepspeech_training.data.checks import check_data
from deepspeech_training.data.formats import read_data_set, write_data_set
from deepspeech_training.export.formats import export_model
from deepspeech_training.text.alphabet import Alphabet
from tests.evaluation.page import Page
from tests.helpers import run_training, transcriptions
from tests.toy import random_texts, toy_config, write_corpus

ROOT = Path(__file__).resolve().parents[2]

ARPA = """\\data\\
ngram 1=4
ngram 2=1

\\1-grams:
-1\t<unk>
0\t<s>\t0
-1\t</s>
-0.5\tabc\t0

\\2-grams:
-0.5\t<s> abc

\\end\\
"""


@pytest.fixture(scope='module')
def toy(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A model of the toy language, trained until it writes something, and a test set."""
    config = toy_config(tmp_path_factory.mktemp('model'), train=6, test=5, epochs=20, n_hidden=16)
    config = replace(config, optimizer=replace(config.optimizer, learning_rate=0.01))
    run_training(config)
    return config


@pytest.fixture(scope='module')
def exports(toy: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its exports in every format."""
    folder = tmp_path_factory.mktemp('exports')
    alphabet = Alphabet.from_file(toy.data.alphabet_config_path)
    export = ExportConfig(
        export_dir=str(folder), beam_width=16, savedmodel=True, onnx=True, tflite=True, quantize=False
    )
    export_model(replace(toy, export=export), alphabet)
    export_model(replace(toy, export=ExportConfig(export_dir=str(folder / 'pb'), beam_width=16)), alphabet)
    return folder


def said(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    captured = capsys.readouterr()
    assert 'Traceback' not in captured.err
    return captured.out, captured.err


def test_a_checkpoint_is_tested_as_by_the_trainer(
    toy: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = toy.data.test_files
    report = tmp_path / 'report.json'
    assert evaluate.main([toy.checkpoints.load_dir, path, '--beam_width', '16', '--json', str(report)]) == 0
    out, _ = said(capsys)
    alphabet = Alphabet.from_file(toy.data.alphabet_config_path)
    config = replace(toy, data=replace(toy.data, train_files=()))
    sets = check_data(config.data, config.features, alphabet, save_dir=str(tmp_path), show_progressbar=False)
    expected = {one.wav_filename: one for one in transcriptions(config, sets, alphabet)}
    content = json.loads(report.read_text())
    assert {each['wav_filename']: each['res'] for each in content['utterances']} == {
        name: one.res for name, one in expected.items()
    }
    assert any(one.res for one in expected.values())
    assert out.splitlines()[0] in capsys.readouterr().out + out
    distance = sum(one.word_distance for one in expected.values())
    assert content['overall']['wer'] == distance / sum(one.word_length for one in expected.values())


@pytest.mark.parametrize('name', ['pb/output_graph.pb', 'output_graph.tflite', 'output_graph.onnx', '.'])
def test_every_export_is_tested(
    name: str, toy: Config, exports: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(exports / name)
    if name == '.':
        model = str(next(exports.rglob('saved_model.pb')).parent)
    arguments = [*toy.data.test_files, '--beam_width', '16', '--csv']
    assert evaluate.main([toy.checkpoints.load_dir, *arguments, str(tmp_path / 'checkpoint.csv')]) == 0
    assert evaluate.main([model, *arguments, str(tmp_path / 'export.csv')]) == 0
    assert (tmp_path / 'export.csv').read_text() == (tmp_path / 'checkpoint.csv').read_text()
    said(capsys)


def test_two_models_are_compared(
    toy: Config, exports: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = str(tmp_path / 'checkpoint.json')
    assert evaluate.main([toy.checkpoints.load_dir, *toy.data.test_files, '--beam_width', '16', '--json', report]) == 0
    model = str(exports / 'output_graph.tflite')
    assert evaluate.main([model, *toy.data.test_files, '--beam_width', '16', '--compare', report]) == 0
    out, _ = said(capsys)
    assert f'Compared with {toy.checkpoints.load_dir} ({report}) on 5 utterances - WER: ' in out
    assert out.endswith(' - change +0.000, 95% confidence: +0.000 to +0.000; 0 utterances better, 0 worse\n')


def test_a_page_with_what_was_heard(toy: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = toy.data.test_files
    page = tmp_path / 'page.html'
    other = write_corpus(tmp_path, 'other', random_texts(3, seed=9))
    assert evaluate.main([toy.checkpoints.load_dir, path, other, '--html', str(page), '--report_count', '1']) == 0
    out, _ = said(capsys)
    read = Page(page.read_text(encoding='utf-8'))
    assert len(read.rows) == 8
    assert {row.data['set'] for row in read.rows} == {'0', '1'}
    assert all(len(row.audio()[0]) for row in read.rows)
    assert [line.split(' - ')[0] for line in out.splitlines() if line.startswith('Test on')] == [
        f'Test on {path}',
        f'Test on {other}',
        'Test on overall',
    ]


def test_sets_that_contain_their_recordings(toy: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = toy.data.test_files
    samples, _ = read_data_set(path)
    write_data_set(str(tmp_path / 'set.tar'), samples)
    options = ['--html', str(tmp_path / 'page.html'), '--noshow_progressbar']
    assert evaluate.main([toy.checkpoints.load_dir, path, str(tmp_path / 'set.tar'), *options]) == 0
    page = Page((tmp_path / 'page.html').read_text(encoding='utf-8'))
    for one, other in zip(*([row for row in page.rows if row.data['set'] == number] for number in '01'), strict=True):
        assert one.heard == other.heard
        assert np.array_equal(one.audio()[0], other.audio()[0])
    assert evaluate.main([toy.checkpoints.load_dir, str(tmp_path / 'set.tar'), '--html_audio', '0', *options]) == 0
    page = Page((tmp_path / 'page.html').read_text(encoding='utf-8'))
    assert [row.source for row in page.rows] == [''] * len(samples)
    assert f'0 recordings are in this page, {len(samples)} are not' in ''.join(page.texts)
    assert evaluate.main([toy.checkpoints.load_dir, str(tmp_path / 'set.tar'), '--audio_channel', '2']) == 2
    assert 'has 1 channel; there is no channel 2' in said(capsys)[1]


def test_with_a_language_model(toy: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arpa = tmp_path / 'words.arpa'
    arpa.write_text(ARPA)
    arguments = [toy.checkpoints.load_dir, *toy.data.test_files, '--scorer_path', str(arpa), '--lm_beta', '5']
    assert evaluate.main([*arguments, '--csv', str(tmp_path / 'out.csv'), '--limit', '3']) == 0
    with (tmp_path / 'out.csv').open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3
    assert {row['res'] for row in rows} <= {'', 'abc'}
    said(capsys)


def test_processes_say_what_one_says(toy: Config, tmp_path: Path) -> None:
    """More utterances than are worth it."""
    path = write_corpus(tmp_path, 'many', random_texts(40, seed=3))
    for processes in ('1', '2'):
        command = [sys.executable, str(ROOT / 'bin' / 'evaluate.py'), toy.checkpoints.load_dir, path]
        options = ['--beam_width', '8', '--processes', processes, '--csv', str(tmp_path / f'{processes}.csv')]
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=240, check=False)
        assert (done.returncode, done.stderr) == (0, '')
    assert (tmp_path / '1.csv').read_text() == (tmp_path / '2.csv').read_text()


def test_a_recording_that_cannot_be_read_does_not_stop_the_rest(
    toy: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_corpus(tmp_path, 'some', random_texts(4))
    (tmp_path / 'some_1.wav').write_bytes((tmp_path / 'some_0.wav').read_bytes()[:30])
    (tmp_path / 'some_2.wav').unlink()
    assert evaluate.main([toy.checkpoints.load_dir, path, '--json', str(tmp_path / 'out.json')]) == 1
    _, err = said(capsys)
    assert f'{path}:3: {tmp_path}/some_1.wav: cannot be read as audio' in err
    assert f'{path}:4: {tmp_path}/some_2.wav: cannot be read: No such file' in err
    assert '2 of 4 recordings cannot be read, and are not counted' in err
    assert json.loads((tmp_path / 'out.json').read_text())['overall']['utterances'] == 2
    for number in (0, 3):
        (tmp_path / f'some_{number}.wav').unlink()
    assert evaluate.main([toy.checkpoints.load_dir, path]) == 2
    assert 'none of the recordings can be read' in said(capsys)[1]


def test_letters_that_the_model_does_not_have_are_errors_in_its_text(
    toy: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(write_corpus(tmp_path, 'some', ['ab', 'ca']))
    path.write_text(path.read_text().replace(',ab', ',äb'), encoding='utf-8')
    assert evaluate.main([toy.checkpoints.load_dir, str(path)]) == 0
    out, err = said(capsys)
    assert "the model cannot write all that is in the transcripts, which counts as errors: 'ä'" in err
    assert '2 utterances, 2 words' in out


@pytest.mark.parametrize(
    ('content', 'reason'),
    [
        ('wav_filename,wav_filesize,transcript\n', 'has a header but no rows'),
        ('', 'is empty'),
        ('wav_filename,transcript\na.wav\nb.wav,b\n', ':2: has 1 fields, the header names 2 columns'),
        ('name,text\na.wav,b\n', 'lacks the column wav_filename'),
    ],
)
def test_wrong_test_sets(
    content: str, reason: str, toy: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / 'set.csv').write_text(content)
    assert evaluate.main([toy.checkpoints.load_dir, str(tmp_path / 'set.csv')]) == 2
    out, err = said(capsys)
    assert out == ''
    assert reason in err


@pytest.mark.parametrize(
    ('arguments', 'reason'),
    [
        (['--beam_width', '0'], '--beam_width=0: must be at least 1'),
        (['--cutoff_prob', '2'], '--cutoff_prob=2.0: must be above 0'),
        (['--lm_alpha', '1'], '--lm_alpha=1.0: is about a language model; give --scorer_path too'),
        (['--hot_words', 'a:b', '--scorer_path', 'x'], "'a:b' is no word with a boost"),
        (['--scorer_path', 'none.scorer'], 'none.scorer: No such file'),
        (['--processes', '-1'], '--processes=-1: must be at least 0'),
        (['--html', '/proc/none/out.html'], '--html=/proc/none/out.html: cannot be written'),
        (['--json', '.'], '--json=.: is a folder'),
        (['--audio_sample_rate', '5'], '--audio_sample_rate=5: must be at least'),
        (['--compare', 'none.json'], '--compare=none.json: cannot be read'),
        (['none.csv'], 'none.csv: cannot be read'),
    ],
)
def test_wrong_usage(arguments: list[str], reason: str, toy: Config, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate.main([toy.checkpoints.load_dir, *toy.data.test_files, *arguments]) == 2
    out, err = said(capsys)
    assert out == ''
    assert reason in err


def test_wrong_models(toy: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / 'notes.txt').write_text('a')
    for model, reason in (('notes.txt', 'is no model'), ('none', 'none'), ('.', 'is a folder without a checkpoint')):
        assert evaluate.main([str(tmp_path / model), *toy.data.test_files]) == 2
        assert reason in said(capsys)[1]
