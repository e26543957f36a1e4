"""The program as its user meets it: exit codes, messages, what is loaded and what is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import wave
from collections.abc import Sequence
from pathlib import Path

import pytest

from deepspeech_training import cli
from deepspeech_training.errors import TrainingDivergedError

ROOT = Path(__file__).resolve().parent.parent

REPORT_TENSORFLOW = """
import sys
from deepspeech_training.cli import main
status = main(sys.argv[1:])
assert 'tensorflow' not in sys.modules
sys.exit(status)
"""


def write_wav(path: Path, *, seconds: float = 1.0, rate: int = 16000) -> None:
    with wave.open(str(path), 'wb') as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(os.urandom(2 * int(seconds * rate)))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to run in, with an alphabet and a data folder of the user in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('XDG_DATA_HOME', str(tmp_path / 'share'))
    (tmp_path / 'data').mkdir()
    (tmp_path / 'data' / 'alphabet.txt').write_text(' \na\nb\n')
    return tmp_path


def run(args: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str], str]:
    """Exit status, lines on standard error, and standard output of the program, run in this process."""
    status = cli.main(args)
    captured = capsys.readouterr()
    return status, captured.err.splitlines(), captured.out


@pytest.mark.parametrize('args', [['--help'], ['-h'], ['--epoch=3'], [], ['--train_files', 'missing.csv']])
def test_help_and_wrong_input_do_not_load_tensorflow(args: list[str]) -> None:
    environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
    result = subprocess.run(
        [sys.executable, '-c', REPORT_TENSORFLOW, *args], env=environment, capture_output=True, text=True, timeout=120
    )
    assert 'Traceback' not in result.stderr
    if args in (['--help'], ['-h']):
        assert result.returncode == 0
        assert '--train_files PATH,...' in result.stdout
        assert result.stderr == ''
    else:
        assert result.returncode == 2
        assert result.stderr.startswith(('E ', 'I '))
        assert result.stdout == ''


def test_entry_runs_from_any_folder() -> None:
    result = subprocess.run([sys.executable, ROOT / 'DeepSpeech.py', '--epochs=x'], capture_output=True, timeout=120)
    assert (result.returncode, result.stdout, result.stderr) == (2, b'', b'E --epochs=x: must be a whole number\n')


def test_help_into_a_closed_pipe_has_no_traceback() -> None:
    program = f'{sys.executable} {ROOT / "DeepSpeech.py"} --help | head -n 1'
    result = subprocess.run(['bash', '-c', program], capture_output=True, text=True, timeout=120)
    assert result.stdout.count('\n') == 1
    assert result.stderr == ''


@pytest.mark.skipif(not os.path.exists('/dev/full'), reason='/dev/full is for Linux')
def test_full_disk_has_no_traceback() -> None:
    program = f'{sys.executable} {ROOT / "DeepSpeech.py"} --help > /dev/full'
    result = subprocess.run(['bash', '-c', program], capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stderr) == (2, 'E output: No space left on device; make room and start again\n')


@pytest.mark.parametrize(
    ('args', 'expected'),
    [
        (['--early_stop', 'False'], 'write --noearly_stop'),
        (['--test_files=a.csv', '--lm_alpha=1'], '--lm_alpha=1.0: is about a language model; give --scorer_path too'),
        (['--test_files=a.csv', '--lm_beta=nan', '--scorer=a'], '--lm_beta=nan: must be a number'),
        (['--test_files=a.csv', '--hot_words=a:1'], '--hot_words=a:1: is about a language model'),
        (['--test_files=a.csv', '--hot_words=a:1,b', '--scorer=a'], "--hot_words=a:1,b: 'b' is no word with a boost"),
        (['--test_files=a.csv', '--cutoff_prob=0'], '--cutoff_prob=0.0: must be '),
        (['--test_files=a.csv', '--beam_width=0'], '--beam_width=0: must be at least 1'),
        (['--train_files=a.csv', '--test_files=a.csv', '--scorer=a'], '--scorer_path=a: No such file'),
        (['--train_files=a.csv', '--one_shot_infer=a.wav', '--scorer=a'], '--scorer_path=a: No such file'),
        (['--train_files=a.csv', '--export_dir=b', '--export_zip', '--scorer=a'], '--scorer_path=a: No such file'),
        (['--train_files=a.csv', '--export_dir=b', '--noexport_quantize'], '--noexport_quantize: is about weights'),
        (['--train_files=a.csv', '--export_dir=/dev/null/b'], '--export_dir=/dev/null/b: cannot be written'),
        (['--train_files=a.csv', '--train_batch_size=0'], '--train_batch_size=0: must be at least 1'),
        (['--train_files=a.csv', '--alphabet_config_path=b.txt'], '--alphabet_config_path=b.txt: no such file'),
        (['--train_files=a.csv', '--checkpoint_dir=/dev/null'], '--checkpoint_dir=/dev/null: cannot be written'),
        (['--train_files=a.csv'], 'a.csv'),
        (['--test_files=a.csv', '--checkpoint_dir=nowhere'], 'nowhere does not exist'),
        (['--train_files=a.csv', '--export_dir=b', '--export_language=x y'], '--export_language'),
        (['--flagfile=nothing'], '--flagfile nothing: No such file'),
        ([], 'nothing to do'),
    ],
)
def test_what_a_user_can_put_right_ends_with_status_2(
    args: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, errors, output = run(args, capsys)
    assert status == 2
    assert expected in errors[-1]
    assert errors[-1].startswith('E ')
    assert output == ''


def test_a_refused_run_leaves_nothing_behind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(folder.rglob('*'))
    assert run(['--train_files=a.csv', '--export_dir=model', '--early_stop'], capsys)[0] == 2
    assert sorted(folder.rglob('*')) == before


def test_default_folders_and_idle_flags_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, errors, _ = run(['--train_files=a.csv', '--shuffle_start=3'], capsys)
    assert errors[:3] == [
        'W --shuffle_start has no effect without --shuffle_batches',
        f'I No --checkpoint_dir given: checkpoints are in {folder}/share/deepspeech_training/checkpoints',
        f'I No --summary_dir given: TensorBoard curves are in {folder}/share/deepspeech_training/summaries',
    ]
    _, errors, _ = run(['--train_files=a.csv', '--checkpoint_dir=c', '--summary_dir=s', '--log_level=3'], capsys)
    assert all(line.startswith('E ') for line in errors)


@pytest.fixture
def checkpoint(folder: Path) -> str:
    """A folder that looks as if it had a checkpoint."""
    (folder / 'checkpoints').mkdir()
    (folder / 'checkpoints' / 'checkpoint').write_text('')
    return '--checkpoint_dir=checkpoints'


def test_one_shot_file_is_checked_first(folder: Path, checkpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_wav(folder / 'short.wav', seconds=0.03)
    write_wav(folder / 'slow.wav', rate=8000)
    (folder / 'text.wav').write_text('no audio')
    for args, expected in (
        (['missing.wav'], 'missing.wav'),
        (['text.wav'], 'text.wav'),
        (['short.wav'], '30 ms of audio are shorter than one window'),
        (['slow.wav', '--nonormalize_sample_rate'], 'has 8000 Hz, the model 16000 Hz'),
        (['slow.wav', '--audio_channel=2'], 'slow.wav: has 1 channel; there is no channel 2'),
    ):
        status, errors, output = run([checkpoint, '--one_shot_infer', *args], capsys)
        assert status == 2
        assert errors[-1].startswith('E --one_shot_infer')
        assert expected in errors[-1]
        assert output == ''


@pytest.mark.parametrize(
    ('exception', 'status', 'message'),
    [
        (TrainingDivergedError('the loss was not finite'), 3, 'E the loss was not finite'),
        (KeyboardInterrupt(), 130, 'E Interrupted'),
    ],
)
def test_exit_status(
    exception: BaseException,
    status: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise exception

    monkeypatch.setattr(cli, '_work', fail)
    assert run(['--train_files=a.csv', '--log_level=3'], capsys) == (status, [message], '')


def test_bugs_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError('a bug')

    monkeypatch.setattr(cli, '_work', fail)
    with pytest.raises(AssertionError, match='a bug'):
        cli.main(['--train_files=a.csv'])
