"""bin/data_doctor.py as a user calls it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import data_doctor
import pytest

from tests.doctor.sets import sound_set, speech, table, wav
from tests.jobs import processes_with, started

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / 'bin' / 'data_doctor.py'
pytestmark = pytest.mark.usefixtures('own_cache_folder')
ALPHABET = ROOT / 'data' / 'alphabet.txt'


def doctor(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, encoding='utf-8', timeout=120)


@pytest.fixture
def sets(tmp_path: Path) -> list[Path]:
    return [
        table(tmp_path / 'train.csv', sound_set(tmp_path, count=70)),
        table(tmp_path / 'test.csv', sound_set(tmp_path, 'test', first=80)),
    ]


def test_sound_sets(sets: list[Path], tmp_path: Path) -> None:
    """With several processes, and all outputs."""
    fixed, page, data = tmp_path / 'fixed', tmp_path / 'r.html', tmp_path / 'r.json'
    done = doctor(
        *sets, '--alphabet_config_path', ALPHABET, '--html', page, '--json', data, '--fix', f'{fixed}/', '--processes=2'
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith('\n0 errors, 0 warnings, 0 notes; every row can be used\n')
    assert f'Wrote {fixed}/train.csv: 70 rows, 0 of them mended; none dropped' in done.stderr
    assert sorted(path.name for path in fixed.iterdir()) == ['test.csv', 'train.csv']
    assert page.read_text(encoding='utf-8').startswith('<!DOCTYPE html>')
    assert json.loads(data.read_text(encoding='utf-8'))['findings'] == []
    assert doctor(fixed / 'train.csv', fixed / 'test.csv', '--strict').returncode == 0


def test_status_tells_errors_and_with_strict_warnings(sets: list[Path], tmp_path: Path) -> None:
    wav(tmp_path / 'train' / '3.wav', 0.01 * speech(3))
    warned = doctor(sets[0])
    assert warned.returncode == 0
    assert 'WARNING quiet' in warned.stdout
    assert doctor(sets[0], '--strict').returncode == 1
    (tmp_path / 'test' / '80.wav').unlink()
    failed = doctor(*sets)
    assert failed.returncode == 1
    assert f'{sets[1]}:2: {tmp_path / "test" / "80.wav"}: the audio file does not exist' in failed.stdout
    assert failed.stderr == ''


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['missing.csv', 'gone.csv'], 'E missing.csv: cannot be read: No such file or directory\nE gone.csv: cannot'),
        (['a.csv', '--alphabet_config_path', 'no.txt'], "the alphabet 'no.txt' cannot be read: No such file"),
        (['a.csv', '--alphabet_config_path', 'binary'], "the alphabet 'binary' is not UTF-8"),
        (['a.csv', '--json', 'no/r.json'], '--json=no/r.json: the folder no does not exist'),
        (['a.csv', '--html', 'folder'], '--html=folder: is a folder; name a file in it'),
        (['a.csv', '--html', 'a.csv'], '--html=a.csv: would replace an input; name another file'),
        (['a.csv', '--fix', 'no/b.csv'], '--fix=no/b.csv: the folder no does not exist'),
        (['a.csv', '--fix', 'no/such/'], '--fix=no/such: cannot be made: No such file or directory'),
        (['a.csv', '--fix', './a.csv'], '--fix=./a.csv: would replace an input; name another file'),
        (['a.csv', 'b.csv', '--fix', 'c.csv'], 'there are 2 data sets and 1 outputs'),
        (['a.csv', '--json', 'r', '--html', 'r'], 'r: two outputs would go there'),
        (['a.csv', 'a.csv'], 'a.csv: is named twice'),
        (['a.csv', '--processes', '0'], '--processes=0: must be at least 1'),
        (['a.csv', '--outlier', 'nan'], '--outlier=nan: must be more than 0'),
        (['header.csv'], 'header.csv: lacks the column wav_filename'),
    ],
)
def test_wrong_use(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ('a', 'b'):
        table(tmp_path / f'{name}.csv', sound_set(tmp_path, name))
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'binary').write_bytes(b'a\nb\xff\n')
    (tmp_path / 'header.csv').write_text('name;text\nx;y\n')
    before = (tmp_path / 'a.csv').read_bytes()
    assert data_doctor.main(arguments) == 2
    told = capsys.readouterr()
    assert message in told.err
    assert told.out == ''
    assert (tmp_path / 'a.csv').read_bytes() == before


def test_what_nobody_reads_is_written_all_the_same(sets: list[Path], tmp_path: Path) -> None:
    """Also for names that are no UTF-8, and standard output that knows ASCII only."""
    odd = tmp_path / os.fsdecode(b'\xff.csv')
    odd.write_bytes(sets[0].read_bytes())
    command = [sys.executable, str(SCRIPT), str(odd), '--html', str(tmp_path / 'r.html')]
    environment = {**os.environ, 'PYTHONIOENCODING': 'ascii'}
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, env=environment, check=False, timeout=120)
    os.close(write)
    assert (done.returncode, done.stderr.decode()) == (0, f'I Wrote {tmp_path / "r.html"}\n')
    assert b'\\udcff.csv' in (tmp_path / 'r.html').read_bytes()
    shown = subprocess.run(command, capture_output=True, env=environment, check=False, timeout=120)
    assert b'\\udcff.csv\n' in shown.stdout


def test_a_full_disk_keeps_what_is_there(sets: list[Path], small_disk: Path) -> None:
    page = small_disk / 'r.html'
    page.write_text('mine')
    (small_disk / 'filler').write_bytes(b'x' * ((1 << 20) - 8192))
    done = doctor(sets[0], '--html', page)
    assert done.returncode == 2
    assert f'--html={page}: cannot be written: No space left on device' in done.stderr
    assert page.read_text() == 'mine'
    assert sorted(path.name for path in small_disk.iterdir()) == ['filler', 'r.html']


def test_ctrl_c_ends_it_quickly(tmp_path: Path) -> None:
    wav(tmp_path / 'a.wav', speech(1, 30))
    path = table(tmp_path / 'train.csv', [('a.wav', 'a')] * 5000)
    command = [sys.executable, str(SCRIPT), str(path), '--processes=2', '--html', str(tmp_path / 'r.html')]
    with started(command, env={**os.environ, 'DOCTOR_TEST': str(tmp_path)}) as process:
        deadline = time.monotonic() + 60
        while len(processes_with('DOCTOR_TEST', str(tmp_path))) < 4:  # with its helpers
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == 'E Interrupted'
    assert 'Traceback' not in errors
    assert output == ''
    assert sorted(path.name for path in tmp_path.iterdir()) == ['a.wav', 'train.csv']


def test_digits(deepspeech_data: Path, tmp_path: Path) -> None:
    """Real speech: 25.2, 1.8 and 3.0 minutes by the sizes of the files, which have 44 bytes before the audio."""
    data = tmp_path / 'r.json'
    folder = deepspeech_data / 'digits'
    names = ('train', 'dev', 'test')
    done = doctor(*(folder / f'{name}.csv' for name in names), '--alphabet_config_path', ALPHABET, '--json', data)
    assert done.returncode == 0, done.stderr
    sets = json.loads(data.read_text(encoding='utf-8'))['sets']
    assert [each['rows'] for each in sets] == [860, 66, 105]
    assert [each['usable'] for each in sets] == [860, 66, 105]
    minutes = [(each['seconds'] + each['rows'] * 44 / 16000) / 60 for each in sets]
    assert [round(each, 1) for each in minutes] == [25.2, 1.8, 3.0]
    assert [each['sample_rates'] for each in sets] == [{'8000': 860}, {'8000': 66}, {'8000': 105}]
