"""Each importer on a tiny archive of its corpus's layout."""

from __future__ import annotations

import csv
import importlib
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import soundfile

from deepspeech_training.config import DataConfig, FeatureConfig
from deepspeech_training.data.checks import check_data
from deepspeech_training.importing.archives import unpack
from deepspeech_training.importing.program import run
from deepspeech_training.text.alphabet import Alphabet
from tests.corpora import CORPORA, TABLE_ARGUMENTS, TinyCorpus, tone, tone_of

RATE = 16000
MP3_EDGE = 0.1  # seconds that MP3 may add at the ends


@pytest.fixture(scope='module')
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Of every corpus."""
    return {name: corpus.archives(tmp_path_factory.mktemp(name)) for name, corpus in CORPORA.items()}


def do_import(*command: object) -> int:
    """Runs an importer, named first, in this process."""
    script, *arguments = command
    module = importlib.import_module(str(script))
    return run(module.CORPUS, module.__doc__, ['--processes=1', '--noshow_progressbar', *map(str, arguments)])


def read_rows(folder: Path) -> list[dict[str, str]]:
    """The rows of all CSV files, each with its split."""
    rows = []
    for path in sorted(folder.glob('*.csv')):
        if path.name != 'rejected.csv':
            with path.open(encoding='utf-8', newline='') as file:
                rows += [{**row, 'split': path.stem} for row in csv.DictReader(file)]
    return rows


def check(folder: Path, corpus: TinyCorpus) -> None:
    """What was imported is what was expected, each utterance with its own audio."""
    rows = read_rows(folder)
    found = []
    for row in rows:
        path = folder / row['wav_filename']
        assert path.stat().st_size == int(row['wav_filesize'])
        info = soundfile.info(path)
        assert (info.format, info.subtype, info.channels, info.samplerate) == ('WAV', 'PCM_16', 1, RATE)
        samples, _ = soundfile.read(path, dtype='float32')
        assert 0.2 < np.abs(samples).max() < 0.4
        found.append(
            (row['transcript'], tone_of(samples, RATE), row.get('speaker', ''), row['split'], len(samples) / RATE)
        )
    expected = [(wanted.transcript, wanted.tone, wanted.speaker) for wanted in corpus.expected]
    assert sorted(entry[:3] for entry in found) == sorted(expected)
    by_tone = {wanted.tone: wanted for wanted in corpus.expected}
    for _, number, _, split, seconds in found:
        assert by_tone[number].split in ('', split)
        assert abs(by_tone[number].seconds - seconds) < MP3_EDGE
    with (folder / 'rejected.csv').open(encoding='utf-8', newline='') as file:
        assert len(list(csv.DictReader(file))) == corpus.rejects


def check_for_training(folder: Path) -> None:
    """`DeepSpeech.py` takes them."""
    files = [str(path) for path in sorted(folder.glob('*.csv')) if path.name != 'rejected.csv']
    rows = read_rows(folder)
    alphabet = Alphabet(sorted({character for row in rows for character in row['transcript']}), normalization='NFC')
    sets = check_data(
        DataConfig(train_files=tuple(files)),
        FeatureConfig(),
        alphabet,
        save_dir=str(folder / 'checked'),
        show_progressbar=False,
    )
    assert len(sets.train) == len(rows)


@pytest.mark.parametrize('name', CORPORA)
def test_an_archive_becomes_audio_and_csv_files(
    name: str, archives: dict[str, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = CORPORA[name]
    command = (tmp_path / 'out', '--archive', *archives[name], *corpus.arguments)
    assert do_import(corpus.script, *command) == 0
    check(tmp_path / 'out', corpus)
    check_for_training(tmp_path / 'out')
    told = capsys.readouterr()
    assert 'utterances, 0.00 hours' in told.out
    assert ('were left out' in told.out) == bool(corpus.rejects)

    before = {path: (path.read_bytes(), path.stat().st_ino) for path in (tmp_path / 'out').rglob('*.wav')}
    tables = {path: path.read_bytes() for path in (tmp_path / 'out').glob('*.csv')}
    assert do_import(corpus.script, *command) == 0
    assert {path: (path.read_bytes(), path.stat().st_ino) for path in (tmp_path / 'out').rglob('*.wav')} == before
    assert {path: path.read_bytes() for path in (tmp_path / 'out').glob('*.csv')} == tables
    count = len({wanted.tone for wanted in corpus.expected})
    assert f'{count} of {count} audio files were there' in capsys.readouterr().err


@pytest.mark.parametrize('name', ['common-voice', 'librispeech', 'ted-3', 'aishell', 'asterisk', 'vctk'])
def test_an_unpacked_folder_is_as_good(name: str, archives: dict[str, list[Path]], tmp_path: Path) -> None:
    corpus = CORPORA[name]
    assert do_import(corpus.script, tmp_path / 'first', '--archive', *archives[name]) == 0
    for unpacked in (tmp_path / 'first' / 'unpacked').rglob('.complete'):
        unpacked.unlink()
    assert do_import(corpus.script, tmp_path / 'out', '--archive', tmp_path / 'first' / 'unpacked') == 0
    check(tmp_path / 'out', corpus)


@pytest.mark.parametrize('name', ['common-voice', 'ldc93s1', 'fsdd', 'vctk', 'aishell'])
def test_a_folder_that_has_the_corpus_is_imported_in_place(
    name: str, archives: dict[str, list[Path]], tmp_path: Path
) -> None:
    """As DeepSpeech's importers do."""
    corpus = CORPORA[name]
    assert do_import(corpus.script, tmp_path / 'first', '--archive', *archives[name]) == 0
    unpacked = tmp_path / 'first' / 'unpacked'
    folder = unpacked if unpacked.exists() else archives[name][0]
    if name == 'aishell':  # its own folder of audio, as it is after all archives in it were unpacked
        folder = unpacked / 'data_aishell.tgz' / 'data_aishell'
        for archive in list((folder / 'wav').iterdir()):
            unpack(archive, folder / 'wav', show_progress=False)
    for _ in range(2):
        assert do_import(corpus.script, folder) == 0
        check(folder, corpus)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A web server with the files of a folder, and a page that lists them."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(('127.0.0.1', 0), partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f'http://127.0.0.1:{server.server_port}/'
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_downloads_of_a_page(archives: dict[str, list[Path]], tmp_path: Path) -> None:
    corpus = CORPORA['voxforge']
    with served(archives['voxforge'][0]) as url:
        assert do_import(corpus.script, tmp_path, '--url', url) == 0
        check(tmp_path, corpus)
        for archive in tmp_path.glob('*.tgz'):
            archive.unlink()  # the space may be needed
        assert do_import(corpus.script, tmp_path, '--url', url) == 0
        check(tmp_path, corpus)
        assert not list(tmp_path.glob('*.tgz'))


def test_downloads_that_are_no_archives(
    archives: dict[str, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = CORPORA['ldc93s1']
    with served(archives['ldc93s1'][0]) as url:
        monkeypatch.setattr(importlib.import_module(corpus.script), 'ADDRESS', url + 'LDC93S1')
        assert do_import(corpus.script, tmp_path) == 0
    check(tmp_path, corpus)
    assert do_import(corpus.script, tmp_path) == 0  # without the server


def test_librispeech_has_its_old_name_too(archives: dict[str, list[Path]], tmp_path: Path) -> None:
    corpus = CORPORA['librispeech']
    assert do_import('import_librivox', tmp_path, '--archive', *archives['librispeech']) == 0
    check(tmp_path, corpus)


@pytest.mark.parametrize('name', ['librispeech', 'vctk', 'm-ailabs'])
def test_audio_may_stay_as_it_is(name: str, archives: dict[str, list[Path]], tmp_path: Path) -> None:
    corpus = CORPORA[name]
    assert do_import(corpus.script, tmp_path, '--archive', *archives[name], '--keep_audio') == 0
    rows = read_rows(tmp_path)
    assert len(rows) == len(corpus.expected)
    assert all(row['wav_filename'].startswith('unpacked/') for row in rows)
    assert not (tmp_path / 'converted').exists()
    check_for_training(tmp_path)


def test_another_rate(archives: dict[str, list[Path]], tmp_path: Path) -> None:
    command = ('import_fsdd', tmp_path, '--archive', *archives['fsdd'])
    for rate in (8000, 16000):
        assert do_import(*command, '--sample_rate', rate) == 0
        assert {soundfile.info(path).samplerate for path in (tmp_path / 'converted').iterdir()} == {rate}


def test_one_channel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / 'source'
    source.mkdir()
    soundfile.write(source / 'a.wav', np.stack([tone(1, 1, RATE), tone(2, 1, RATE)], axis=1), RATE)
    (source / 'a.txt').write_text('a call')
    command = ('import_folder', tmp_path, '--archive', source, '--dev_share', 0, '--test_share', 0)
    for channel in (1, 2):
        assert do_import(*command, '--audio_channel', channel) == 0
        (row,) = read_rows(tmp_path)
        assert row['wav_filename'] == f'converted-channel-{channel}/a.wav'
        samples, _ = soundfile.read(tmp_path / row['wav_filename'], dtype='float32')
        assert tone_of(samples, RATE) == channel
    assert do_import(*command, '--audio_channel', 3) == 2
    assert 'the audio cannot be used' in capsys.readouterr().err


def test_the_other_microphone(archives: dict[str, list[Path]], tmp_path: Path) -> None:
    assert do_import('import_vctk', tmp_path, '--archive', *archives['vctk'], '--microphone', 2) == 0
    samples, rate = soundfile.read(next((tmp_path / 'converted').rglob('*.wav')), dtype='float32')
    assert tone_of(samples, rate) >= 20


def test_vctk_is_split_by_speaker(archives: dict[str, list[Path]], tmp_path: Path) -> None:
    assert do_import('import_vctk', tmp_path, '--archive', *archives['vctk']) == 0
    assert {row['split'] for row in read_rows(tmp_path)} == {'train', 'dev', 'test'}


@pytest.mark.parametrize('name', [name for name in CORPORA if name != 'table'])
def test_another_corpus_is_told(
    name: str, archives: dict[str, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = 'vctk' if name == 'fsdd' else 'fsdd'
    assert do_import(CORPORA[name].script, tmp_path, '--archive', *archives[other]) == 2
    told = capsys.readouterr().err
    assert re.search(rf'E .*{archives[other][0].name}: is no .*: it has no .*\. It has ', told), told
    (tmp_path / 'empty').mkdir()
    assert do_import(CORPORA[name].script, tmp_path, '--archive', tmp_path / 'empty') == 2
    assert 'It is empty' in capsys.readouterr().err
    assert not list(tmp_path.glob('*.csv'))


def wrong(capsys: pytest.CaptureFixture[str], *command: object) -> str:
    """What an importer says that cannot go on."""
    assert do_import(*command) == 2
    told = capsys.readouterr()
    assert 'Traceback' not in told.err
    assert not told.out
    return told.err


def test_wrong_arguments(archives: dict[str, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ('import_fsdd', tmp_path / 'out', '--archive', *archives['fsdd'])
    for flags, message in (
        (['--sample_rate', '80'], '--sample_rate=80: must be'),
        (['--processes=-1'], '--processes=-1'),
        (['--min_seconds', 'nan'], '--min_seconds=nan'),
        (['--dev_share', '0.5', '--test_share', '0.5'], 'leave nothing for train'),
        (
            ['--splits', 'train,other'],
            "--splits: Free Spoken Digit Dataset has no split 'other' here. It has dev, test, train",
        ),
        (['--filter_alphabet', 'no.txt'], "the alphabet 'no.txt' cannot be read"),
        (['--validate_label_locale', 'no.py'], '--validate_label_locale=no.py: cannot be read'),
    ):
        assert message in wrong(capsys, *command, *flags)
    assert '--archive=missing.zip: is not there' in wrong(capsys, 'import_fsdd', tmp_path, '--archive', 'missing.zip')
    (tmp_path / 'file').write_text('')
    assert f'{tmp_path}/file: is a file' in wrong(capsys, 'import_fsdd', tmp_path / 'file')
    assert 'must be cut' in wrong(capsys, 'import_ted', tmp_path, '--archive', *archives['ted-2'], '--keep_audio')
    assert '--archive names what is elsewhere' in wrong(capsys, 'import_folder', tmp_path / 'new')
    assert 'cannot be downloaded by a program' in wrong(capsys, 'import_cv2', tmp_path / 'new')
    assert '--language: which one?' in wrong(capsys, 'import_m-ailabs', tmp_path / 'new')
    assert "--subsets: 'dev' is no part" in wrong(capsys, 'import_librispeech', tmp_path / 'new', '--subsets', 'dev')


def test_wrong_tables(archives: dict[str, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ('import_folder', tmp_path, '--archive', *archives['table'])
    told = wrong(capsys, *command, '--table', 'list.csv')
    assert "list.csv:1: has no column 'wav_filename'. Its first line has 'who', 'file', 'said', 'part'" in told
    assert '--table=other.csv: is not there' in wrong(capsys, *command, '--table', 'other.csv')
    (tmp_path / 'header.csv').write_text('file,said\n')
    flags = ('--audio_column', 'file', '--transcript_column', 'said')
    assert 'header.csv: has no rows' in wrong(capsys, *command, '--table', tmp_path / 'header.csv', *flags)
    assert 'must be one character' in wrong(capsys, *command, '--table', 'list.csv', '--delimiter', '::')


def test_files_of_others_are_not_replaced(
    archives: dict[str, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = shutil.copytree(archives['table'][0], tmp_path / 'own')
    table = own / 'list.csv'
    command = ('import_folder', own, *TABLE_ARGUMENTS)
    assert do_import(*command) == 0
    assert do_import(*command) == 0
    table = table.rename(own / 'dev.csv')
    content = table.read_bytes()
    capsys.readouterr()
    flags = ('--table', table, '--split_by', 'utterance')
    assert f'{table}: is there already, and no importer made it' in wrong(capsys, *command, *flags)
    assert table.read_bytes() == content


@pytest.mark.parametrize('name', ['../train', '/train', 'rejected', '.train', 'a b', 'a/b'])
def test_splits_that_no_file_can_have(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / 'in').mkdir()
    text = f'wav_filename,transcript,part\na.wav,a,train\nb.wav,b,{name}\n'
    (tmp_path / 'in' / 'list.csv').write_text(text)
    command = ('import_folder', tmp_path / 'out', '--archive', tmp_path / 'in', '--table', 'list.csv')
    told = wrong(capsys, *command, '--split_column', 'part')
    assert f'list.csv:3: the split {name!r} cannot be the name of a CSV file' in told
    assert not list((tmp_path / 'out').rglob('*.csv'))


def test_a_table_without_header(tmp_path: Path, archives: dict[str, list[Path]]) -> None:
    table = tmp_path / 'list.txt'
    table.write_text('0.wav|null\n|names nothing\n2.wav|zwei\n', encoding='utf-8')
    flags = (
        '--table',
        table,
        '--audio_column',
        1,
        '--transcript_column',
        2,
        '--audio_dir',
        archives['table'][0] / 'audio',
    )
    assert do_import('import_folder', tmp_path / 'out', '--archive', archives['table'][0], *flags) == 0
    assert sorted(row['transcript'] for row in read_rows(tmp_path / 'out')) == ['null', 'zwei']


def test_filters_and_reasons(
    archives: dict[str, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def reasons(*flags: object) -> list[str]:
        assert do_import('import_folder', tmp_path, '--archive', *archives['folder'], *flags) in (0, 2)
        with (tmp_path / 'rejected.csv').open(encoding='utf-8', newline='') as file:
            return sorted({row['reason'] for row in csv.DictReader(file)})

    assert reasons() == []
    assert reasons('--max_seconds', 0.5) == ['the audio is too long']
    assert 'no utterance can be used' in capsys.readouterr().err
    assert reasons('--min_seconds', 1) == ['the audio is too short']
    assert reasons('--max_chars_per_second', 10) == ['the transcript has too many characters a second']
    assert len(read_rows(tmp_path)) == 4  # of the first import
    (tmp_path / 'alphabet.txt').write_text(' \na\ne\nf\nn\no\nr\nt\nu\nc\n')
    assert reasons('--filter_alphabet', tmp_path / 'alphabet.txt') == [
        "'b' (U+0062) is not in --filter_alphabet",
        "'d' (U+0064) is not in --filter_alphabet",
    ]
    assert [row['transcript'] for row in read_rows(tmp_path)] == ['utterance of a', 'utterance of c']


def test_a_locale_of_the_user(
    archives: dict[str, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    locale = tmp_path / 'ru.py'
    locale.write_text(
        'def validate_label(label):\n'
        '    return None if "[" in label else label.lower().replace("1", "один").strip(".")\n',
        encoding='utf-8',
    )
    command = (
        'import_asterisk',
        tmp_path / 'out',
        '--archive',
        *archives['asterisk'],
        '--validate_label_locale',
        locale,
    )
    assert do_import(*command) == 0
    assert 'нажмите один' in {row['transcript'] for row in read_rows(tmp_path / 'out')}
    locale.write_text('def validate_label(label):\n    return label[100]\n')
    capsys.readouterr()
    told = wrong(capsys, *command)
    assert f'--validate_label_locale={locale}: line 2: IndexError: string index out of range' in told


def test_new_splits(archives: dict[str, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ('import_cv2', tmp_path, '--archive', *archives['common-voice'])
    assert do_import(*command, '--split_by', 'utterance', '--dev_share', 0, '--test_share', 0) == 0
    assert {row['split'] for row in read_rows(tmp_path)} == {'train'}
    assert do_import(*command) == 0
    assert {row['split'] for row in read_rows(tmp_path)} == {'train', 'dev', 'test'}
    capsys.readouterr()
    told = wrong(capsys, 'import_asterisk', tmp_path / 'a', '--archive', *archives['asterisk'], '--split_by', 'speaker')
    assert '--split_by=speaker: the speaker of' in told
