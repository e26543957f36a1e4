"""bin/transcribe.py on recordings, folders and pipes, good ones and bad ones."""

from __future__ import annotations

import io
import json
import multiprocessing
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
import transcribe

from deepspeech_training.audio.reading import read_audio
from deepspeech_training.config import Config, DecodingConfig, FeatureConfig
from deepspeech_training.errors import UserError
from deepspeech_training.infer import one_shot_infer
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.transcription.crew import Crew, Task
from deepspeech_training.transcription.recognizer import Recognition
from tests.helpers import run_training
from tests.toy import toy_config, write_tones

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = 'she had your dark suit in greasy wash water all year'
CERTAIN = 'suit in greasy wash water all'  # of it, also where silence stands before and behind it


ARPA = """\\data\\
ngram 1=5
ngram 2=1

\\1-grams:
-1\t<unk>
0\t<s>\t0
-1\t</s>
-0.5\tcc\t0
-0.5\taaa\t0

\\2-grams:
-0.5\t<s> cc

\\end\\
"""


@pytest.fixture(scope='module')
def toy(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A model of the toy language, trained until it writes something."""
    config = toy_config(tmp_path_factory.mktemp('model'), train=6, epochs=20, n_hidden=16)
    config = replace(config, optimizer=replace(config.optimizer, learning_rate=0.01))
    run_training(config)
    return config


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """Two recordings, one of them below and in another format, one that is damaged, and a text."""
    folder = tmp_path / 'recordings'
    (folder / 'below').mkdir(parents=True)
    write_tones(folder / 'abc.wav', 'abcab')
    write_tones(folder / 'ca.wav', 'cac', rate=44100)
    samples, rate = soundfile.read(folder / 'ca.wav')
    soundfile.write(folder / 'below' / 'sound', samples, rate, format='FLAC')
    (folder / 'ca.wav').unlink()
    (folder / 'damaged.wav').write_bytes((folder / 'abc.wav').read_bytes()[:30])
    (folder / 'notes.txt').write_text('a b c\n')
    return folder


@pytest.fixture
def ldc93s1(deepspeech_data: Path) -> Path:
    return deepspeech_data / 'deepspeech-0.9.3' / 'ldc93s1'


def said(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    captured = capsys.readouterr()
    assert 'Traceback' not in captured.err
    return captured.out, captured.err


def test_one_recording_is_its_text_as_in_one_shot(
    toy: Config, recordings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(recordings / 'abc.wav')
    assert transcribe.main([toy.checkpoints.load_dir, path]) == 0
    text, _ = said(capsys)
    alphabet = Alphabet.from_file(toy.data.alphabet_config_path)
    assert text.strip()
    assert text == one_shot_infer(replace(toy, one_shot_infer=path), alphabet).strip() + '\n'


def test_a_damaged_file_does_not_stop_the_rest(
    toy: Config, recordings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [toy.checkpoints.load_dir, str(recordings), str(recordings / 'none.wav'), '--format', 'json']
    assert transcribe.main(arguments) == 1
    out, err = said(capsys)
    results = [json.loads(line) for line in out.splitlines()]
    assert [result['file'] for result in results] == [f'{recordings}/abc.wav', f'{recordings}/below/sound']
    assert [result['duration'] for result in results] == [0.6, 0.36]
    assert all(result['words'] for result in results)
    assert f'{recordings}/damaged.wav: cannot be read as audio' in err
    assert f'{recordings}/none.wav: cannot be read: No such file' in err
    assert '2 of 4 recordings could not be transcribed' in err
    assert 'notes.txt' not in err


def test_text_of_several_names_them(toy: Config, recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (recordings / 'damaged.wav').unlink()
    assert transcribe.main([toy.checkpoints.load_dir, str(recordings), '--beam_width', '1']) == 0
    out, _ = said(capsys)
    assert [line.split(': ')[0] for line in out.splitlines()] == [f'{recordings}/abc.wav', f'{recordings}/below/sound']


def test_with_a_language_model_only_its_words_are_written(
    toy: Config, recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arpa = tmp_path / 'words.arpa'
    arpa.write_text(ARPA)
    arguments = [toy.checkpoints.load_dir, str(recordings), '--scorer_path', str(arpa), '--lm_beta', '5']
    assert transcribe.main([*arguments, '--format', 'json', '--hot_words', 'cc:9']) == 1
    out, _ = said(capsys)
    words = {word['word'] for line in out.splitlines() for word in json.loads(line)['words']}
    assert words
    assert words <= {'cc', 'aaa'}
    for wrong, message in (
        (['--scorer_path', str(recordings / 'none')], f'--scorer_path={recordings}/none: No such file'),
        (['--hot_words', 'cc'], "--hot_words=cc: 'cc' is no word with a boost"),
    ):
        assert transcribe.main([*arguments, *wrong]) == 2
        assert message in said(capsys)[1]
    assert transcribe.main([toy.checkpoints.load_dir, str(recordings), '--lm_alpha', '1']) == 2
    assert '--lm_alpha=1.0: is about a language model; give --scorer_path too' in said(capsys)[1]


def test_processes_say_what_one_says(toy: Config, recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [toy.checkpoints.load_dir, str(recordings), '--format', 'json', '--threads', '1']
    assert transcribe.main(arguments) == 1
    alone, _ = said(capsys)
    done = subprocess.run(
        [sys.executable, str(ROOT / 'bin' / 'transcribe.py'), *arguments, '--processes', '2'],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == alone
    assert 'E ' in done.stderr
    assert 'Traceback' not in done.stderr


def test_a_process_that_is_killed_ends_the_work(toy: Config) -> None:
    crew = Crew(Recognition(toy.checkpoints.load_dir, threads=1, decoding=DecodingConfig(beam_width=1)), processes=2)
    try:
        tasks = [Task(number, 0, 0.0, np.zeros(16000, np.float32)) for number in range(3)]
        assert sorted(done.file for done in crew.recognize(tasks)) == [0, 1, 2]
        for process in multiprocessing.active_children():
            process.kill()
        with pytest.raises(UserError, match='was killed by signal 9; perhaps there was not enough memory'):
            list(crew.recognize(tasks))
    finally:
        crew.end()
    assert multiprocessing.active_children() == []


def test_a_file_for_all(toy: Config, recordings: Path, tmp_path: Path) -> None:
    path = tmp_path / 'new' / 'all.json'
    assert transcribe.main([toy.checkpoints.load_dir, str(recordings), '--output', str(path)]) == 1
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 2
    assert [each.name for each in path.parent.iterdir()] == ['all.json']


def test_a_folder_with_a_file_for_each(toy: Config, recordings: Path, tmp_path: Path) -> None:
    write_tones(recordings / 'abc.aiff', 'ab')
    out = tmp_path / 'subtitles'
    assert transcribe.main([toy.checkpoints.load_dir, str(recordings), '--output', f'{out}/', '--format', 'srt']) == 1
    assert sorted(str(path.relative_to(out)) for path in out.rglob('*.*')) == [
        'abc.aiff.srt',
        'abc.wav.srt',
        'below/sound.srt',
    ]
    assert (out / 'abc.wav.srt').read_text().startswith('1\n00:00:00,')


def test_a_channel_of_recordings(toy: Config, recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    speech, rate = soundfile.read(recordings / 'abc.wav')
    noise = np.random.default_rng(1).normal(0, 0.2, len(speech))
    stereo = str(recordings / 'stereo.wav')
    soundfile.write(stereo, np.stack([noise, speech], axis=1), rate)
    model = toy.checkpoints.load_dir
    assert transcribe.main([model, str(recordings / 'abc.wav')]) == 0
    alone, _ = said(capsys)

    assert transcribe.main([model, stereo, '--audio_channel', '2']) == 0
    assert said(capsys)[0] == alone
    assert transcribe.main([model, stereo, '--audio_channel', '3']) == 1
    assert 'stereo.wav: has 2 channels; there is no channel 3 (--audio_channel)' in said(capsys)[1]
    assert transcribe.main([model, '-', '--audio_channel', '2']) == 2
    assert 'standard input (-) is mono' in said(capsys)[1]


@pytest.mark.parametrize(
    ('arguments', 'reason'),
    [
        (['--format', 'srt'], 'cannot be in one file; name a folder'),
        (['--processes', '0'], '--processes=0: must be at least 1'),
        (['--max_segment', 'nan'], '--max_segment=nan: must be from 0.1'),
        (['--rate', '8000'], 'is for standard input'),
        (['--audio_channel', '-1'], '--audio_channel=-1: must be at least 0'),
        (['-'], 'cannot be transcribed together with files'),
        (['--output', '/proc/none/out.txt'], '--output: cannot write /proc/none/out.txt'),
        (['--alphabet_config_path', 'none.txt'], "'none.txt' cannot be read"),
        (['--load_evaluate', 'best'], 'there is no best checkpoint'),
    ],
)
def test_wrong_usage(
    arguments: list[str], reason: str, toy: Config, recordings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert transcribe.main([toy.checkpoints.load_dir, str(recordings), *arguments]) == 2
    out, err = said(capsys)
    assert out == ''
    assert reason in err


def test_wrong_models_and_empty_folders(
    toy: Config, recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / 'out.txt'
    assert transcribe.main([str(recordings / 'notes.txt'), str(recordings / 'abc.wav'), '--output', str(out)]) == 2
    assert not list(tmp_path.glob('out*'))
    (tmp_path / 'empty').mkdir()
    assert transcribe.main([toy.checkpoints.load_dir, str(tmp_path / 'empty')]) == 2
    assert 'there is no sound file in' in said(capsys)[1]
    for processes in ('1', '2'):
        arguments = [str(recordings / 'notes.txt'), str(recordings), '--processes', processes]
        assert transcribe.main(arguments) == 2
        assert 'notes.txt: is no model' in said(capsys)[1]


def with_pauses(ldc93s1: Path, pauses: list[float]) -> npt.NDArray[np.float32]:
    """The sentence between pauses of so many seconds, in quiet noise."""
    sentence = read_audio(str(ldc93s1 / 'LDC93S1_pcms16le_1_16000.wav'), FeatureConfig())
    random = np.random.default_rng(1)
    silences = [np.rint(random.normal(scale=3, size=int(16000 * pause))) / 32768 for pause in pauses]
    parts = [part for silence in silences for part in (silence.astype(np.float32), sentence)]
    return np.concatenate([*parts[:-1], sentence])


def test_words_are_where_they_were_said(ldc93s1: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sentences that follow each other after pauses: each begins and ends within 0.2 s of where it was put."""
    pauses = [0.9, 1.6, 1.1, 2.0]
    soundfile.write(tmp_path / 'long.wav', with_pauses(ldc93s1, pauses), 16000)
    model = str(ldc93s1 / 'output_graph.pb')
    assert transcribe.main([model, str(tmp_path / 'long.wav'), '--format', 'json', '--max_segment', '5']) == 0
    result = json.loads(said(capsys)[0])
    length = 46797 / 16000
    assert len(result['segments']) == 4
    for number, segment in enumerate(result['segments']):
        assert CERTAIN in segment['transcript']
        begin = sum(pauses[: number + 1]) + number * length
        words = [word for word in result['words'] if abs(word['start_time'] - begin - length / 2) < 0.4 + length / 2]
        assert words[0]['start_time'] == pytest.approx(begin, abs=0.2)
        assert words[-1]['start_time'] + words[-1]['duration'] == pytest.approx(begin + length, abs=0.2)
        (suit,) = (word for word in words if word['word'] == 'suit')
        assert suit['start_time'] == pytest.approx(begin + 0.9, abs=0.1)


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """Standard input."""
    content = io.BytesIO()
    monkeypatch.setattr(sys, 'stdin', io.TextIOWrapper(content))
    return content


@pytest.mark.parametrize(('rate', 'name'), [(16000, '1_16000'), (44100, '2_44100')])
def test_a_pipe(rate: int, name: str, ldc93s1: Path, pipe: io.BytesIO, capsys: pytest.CaptureFixture[str]) -> None:
    samples, _ = soundfile.read(ldc93s1 / f'LDC93S1_pcms16le_{name}.wav', dtype='int16', always_2d=True)
    pipe.write(samples[:, 0].astype('<i2').tobytes() + b'\0')  # and half a sample
    pipe.seek(0)
    assert transcribe.main([str(ldc93s1 / 'output_graph.pb'), '-', '--rate', str(rate)]) == 0
    assert said(capsys)[0] == f'{SENTENCE}\n'


def test_a_pipe_without_speech(ldc93s1: Path, pipe: io.BytesIO, capsys: pytest.CaptureFixture[str]) -> None:
    assert transcribe.main([str(ldc93s1 / 'output_graph.pb'), '-']) == 0
    pipe.write(bytes(16000))
    pipe.seek(0)
    assert transcribe.main([str(ldc93s1 / 'output_graph.pb'), '-', '--format', 'srt']) == 0
    assert said(capsys)[0] == ''


def test_utterances_are_written_while_the_pipe_is_open(ldc93s1: Path) -> None:
    samples = (with_pauses(ldc93s1, [0.5, 1.0]) * 32768).astype('<i2')
    program = subprocess.Popen(
        [sys.executable, str(ROOT / 'bin' / 'transcribe.py'), str(ldc93s1 / 'output_graph.pb'), '-'],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(samples[: 16000 * 5].tobytes())
    program.stdin.flush()
    first = program.stdout.readline().decode()
    rest, errors = program.communicate(samples[16000 * 5 :].tobytes(), timeout=120)
    assert CERTAIN in first
    assert CERTAIN in rest.decode()
    assert (program.returncode, errors) == (0, b'')
