"""bin/data_set_tool.py as a user calls it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import data_set_tool
import numpy as np
import pytest
import soundfile

from deepspeech_training.config import FeatureConfig
from deepspeech_training.data.augmentation.augmenter import Augmenter, Moment
from deepspeech_training.data.formats import read_data_set
from deepspeech_training.data.writing import content_of
from tests.doctor.sets import sound_set, speech, table, wav
from tests.jobs import started

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / 'bin' / 'data_set_tool.py'
pytestmark = pytest.mark.usefixtures('own_cache_folder')


def tool(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, encoding='utf-8', timeout=120)


def texts(path: Path | str) -> list[str]:
    samples, problems = read_data_set(str(path))
    assert problems == []
    return [sample.transcript for sample in samples]


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob('*') if path.is_file())


@pytest.fixture
def sets(tmp_path: Path) -> list[Path]:
    return [
        table(tmp_path / f'{name}.csv', sound_set(tmp_path, name, 12, first)) for name, first in (('a', 0), ('b', 20))
    ]


def test_there_and_back_through_every_format(sets: list[Path], tmp_path: Path) -> None:
    """Merged, and the audio is the same to the last bit."""
    outputs = [tmp_path / name for name in ('one.jsonl', 'two.tar', 'three.sdb', 'four.csv')]
    source: list[Path] = sets
    for output in outputs:
        done = tool(*source, '--output', output)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f'{output}: 24 utterances\n'
        source = [output]
    assert texts(outputs[-1]) == texts(sets[0]) + texts(sets[1])
    first, last = (read_data_set(str(path))[0] for path in (sets[0], outputs[-1]))
    for before, after in zip(first, last, strict=False):
        assert content_of(before) == content_of(after)


def test_shards(sets: list[Path], tmp_path: Path) -> None:
    done = tool(*sets, '--output', tmp_path / 'all-{00..04}.tar')
    assert done.returncode == 0, done.stderr
    shards = [tmp_path / f'all-0{number}.tar' for number in range(5)]
    assert [len(texts(shard)) for shard in shards] == [4, 5, 5, 5, 5]
    assert texts(tmp_path / 'all-*.tar') == texts(sets[0]) + texts(sets[1])


def test_split_and_sample(sets: list[Path], tmp_path: Path) -> None:
    outputs = [tmp_path / name for name in ('train.csv', 'dev.csv', 'test.jsonl')]
    arguments = [argument for output in outputs for argument in ('--output', output)]
    done = tool(*sets, '--sample', '20', '--split', 'rest,10%,5', *arguments)
    assert done.returncode == 0, done.stderr
    assert 'I Split by utterance' in done.stderr
    found = [texts(output) for output in outputs]
    assert [len(each) for each in found] == [13, 2, 5]
    assert len({text for each in found for text in each}) == 20
    again = tmp_path / 'again.csv'
    assert tool(*sets, '--sample', '20', '--output', again).returncode == 0
    assert set(texts(again)) == {text for each in found for text in each}, 'the same seed'
    assert tool(*sets, '--sample', '20', '--random_seed', '1', '--output', again, '--overwrite').returncode == 0
    assert set(texts(again)) != {text for each in found for text in each}


@pytest.mark.parametrize(
    ('name', 'sample_format'),
    [('wav', 'WAV PCM_16'), ('flac', 'FLAC PCM_16'), ('ogg', 'OGG VORBIS'), ('opus', 'OGG OPUS'), ('mp3', 'MP3')],
)
def test_audio_is_converted(tmp_path: Path, name: str, sample_format: str) -> None:
    low, tone = (0.5 * np.sin(2 * np.pi * frequency * np.arange(44100) / 44100) for frequency in (100, 440))
    wav(tmp_path / 'tone.wav', np.stack([low, tone], axis=1), 44100, subtype='PCM_24')
    source, output = table(tmp_path / 'in.csv', [('tone.wav', 'a')]), tmp_path / 'out.csv'
    done = tool(source, '--output', output, '--audio_format', name, '--audio_rate=16000', '--audio_channel=2')
    assert done.returncode == 0, done.stderr
    path = tmp_path / 'out-audio' / f'000000-tone.{name}'
    info = soundfile.info(path)
    assert f'{info.format} {info.subtype}'.startswith(sample_format)
    assert (info.samplerate, info.channels) == (16000, 1)
    (sample,), _ = read_data_set(str(output))
    assert (sample.path, sample.size) == (str(path), path.stat().st_size)
    spectrum = np.abs(np.fft.rfft(soundfile.read(path)[0][:16000]))
    assert spectrum.argmax() == pytest.approx(440, abs=1)


def test_augmented_audio_comes_from_the_seed_only(sets: list[Path], tmp_path: Path) -> None:
    spec = ['--augment', 'volume[dbfs=-20~10]', '--augment', 'reverb[p=0.5,delay=50]', '--copies', '2']
    for name, more in (('x', ['--processes=1']), ('y', ['--processes=2']), ('z', ['--random_seed=9'])):
        done = tool(sets[0], *spec, *more, '--output', tmp_path / f'{name}.csv')
        assert done.returncode == 0, done.stderr
    contents = {name: [content_of(each) for each in read_data_set(str(tmp_path / f'{name}.csv'))[0]] for name in 'xyz'}
    assert len(contents['x']) == 24
    assert contents['x'] == contents['y']
    assert contents['x'] != contents['z']
    assert contents['x'][0] != contents['x'][1]
    assert texts(tmp_path / 'x.csv') == [text for text in texts(sets[0]) for _ in range(2)]
    augmenter = Augmenter(spec[1:4:2], FeatureConfig(), 4568)
    before, _ = soundfile.read(tmp_path / 'a' / '3.wav', dtype='float32')
    expected = augmenter.change_audio(before, augmenter.draw(Moment(1, 3, 0.0)))
    written, _ = soundfile.read(tmp_path / 'x-audio' / '000003-2-3.wav', dtype='float32')
    assert np.abs(written - expected).max() <= 0.5 / 32768


def test_new_audio_goes_into_containers(sets: list[Path], tmp_path: Path) -> None:
    output = tmp_path / 'out.tar'
    before = set(files(tmp_path))
    assert tool(sets[0], '--audio_format', 'flac', '--output', output).returncode == 0
    assert set(files(tmp_path)) - before == {'out.tar'}
    samples, _ = read_data_set(str(output))
    assert samples[0].path == f'{output}: 01_000000-0.flac'


def test_what_cannot_be_used(sets: list[Path], tmp_path: Path) -> None:
    (tmp_path / 'a' / '3.wav').write_bytes(b'no audio')
    with sets[0].open('a', encoding='utf-8') as file:
        file.write('only one field\n')
    failed = tool(*sets, '--audio_rate=8000', '--output', tmp_path / 'out.csv')
    assert failed.returncode == 2
    assert f'{sets[0]}:14: has 1 fields' in failed.stderr
    with_audio = tool(*sets, '--audio_rate=8000', '--on_bad_sample=skip', '--output', tmp_path / 'out.csv')
    assert with_audio.returncode == 0
    assert f'{sets[0]}:5: {tmp_path / "a" / "3.wav"}: cannot be read as audio' in with_audio.stderr
    assert with_audio.stdout == f'{tmp_path / "out.csv"}: 23 utterances\n'
    assert len(texts(tmp_path / 'out.csv')) == 23
    inside = tool(*sets, '--on_bad_sample=skip', '--output', tmp_path / 'out.sdb')
    assert inside.returncode == 0
    assert inside.stdout == f'{tmp_path / "out.sdb"}: 23 utterances\n'
    assert 'cannot be read as audio' in inside.stderr


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['a.csv', '--output', 'out.txt'], '--output=out.txt: its suffix names no format'),
        (['a.csv', '--output', 'a.csv', '--overwrite'], '--output=a.csv: is read and written'),
        (['a.csv', '--output', 'b.csv'], '--output=b.csv: is there already; --overwrite replaces it'),
        (['a.csv', '--output', 'no/out.csv'], '--output=no/out.csv: the folder no does not exist'),
        (['a.csv', '--output', 'x-{3..1}.tar'], 'does not go from a number to a larger one'),
        (['a.csv', '--output', 'x-{00..99}.tar'], '12 utterances are too few for 100 files'),
        (['a.csv', '--output', 'x.csv', '--output', 'y.csv'], '--output: is given 2 times'),
        (['a.csv', '--split', 'rest,2', '--output', 'x.csv'], '--output: is given 1 times'),
        (['a.csv', '--split', 'rest,2', '--output', 'x.csv', '--output', './x.csv'], 'is read and written'),
        (['a.csv', '--sample', 'all', '--output', 'x.csv'], '--sample=all: must be a number of utterances'),
        (['a.csv', '--augment', 'pitch', '--output', 'x.csv'], '--augment=pitch: changes what is computed from audio'),
        (['a.csv', '--augment', 'volum', '--output', 'x.csv'], 'did you mean volume?'),
        (['a.csv', '--augment', 'overlay[source=no.csv]', '--output', 'x.csv'], "'source=no.csv': no.csv: cannot be"),
        (['a.csv', '--copies', '2', '--output', 'x.csv'], '--copies=2: without --augment they would be alike'),
        (['a.csv', '--audio_rate=11025', '--audio_format=opus', '--output', 'x.csv'], 'opus with 11025 Hz'),
        (['a.csv', '--audio_rate=8000', '--output', 'a.jsonl'], 'a-audio, where its audio goes, is there already'),
        (['a.csv', '--audio_rate=8000', '--output', 'memory://a.csv'], 'new audio goes into local folders'),
        (['no.csv', 'gone.csv', '--output', 'x.csv'], 'gone.csv: cannot be read: No such file'),
    ],
)
def test_wrong_use(
    sets: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'a-audio').mkdir()
    before = {path: (tmp_path / path).read_bytes() for path in files(tmp_path)}
    assert data_set_tool.main(arguments) == 2
    assert message in capsys.readouterr().err
    assert {path: (tmp_path / path).read_bytes() for path in files(tmp_path)} == before
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ['a', 'a-audio', 'b']


def test_a_full_disk_leaves_nothing_behind(sets: list[Path], small_disk: Path) -> None:
    (small_disk / 'filler').write_bytes(b'x' * 900_000)
    for more in ([], ['--audio_rate=48000']):
        done = tool(*sets, '--output', small_disk / 'out.sdb', *more)
        assert done.returncode == 2
        assert 'cannot be written: No space left on device' in done.stderr
        assert [path.name for path in small_disk.iterdir()] == ['filler']


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    wav(tmp_path / 'a.wav', speech(1, 30))
    path = table(tmp_path / 'in.csv', [('a.wav', 'a')] * 3000)
    command = [sys.executable, str(SCRIPT), str(path), '--augment=codec', '--output', str(tmp_path / 'out.csv')]
    with started(command) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob('out-audio.*.tmp/*')):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == 'E Interrupted'
    assert 'Traceback' not in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ['a.wav', 'in.csv']


def test_digits(deepspeech_data: Path, tmp_path: Path) -> None:
    """Real speech through a database and shards."""
    sources = [deepspeech_data / 'digits' / f'{name}.csv' for name in ('dev', 'test')]
    for source, output in ((sources, tmp_path / 'a.sdb'), ([tmp_path / 'a.sdb'], tmp_path / 'b-{0..2}.tar')):
        done = tool(*source, '--output', output)
        assert done.returncode == 0, done.stderr
    before = [content_of(sample) for source in sources for sample in read_data_set(str(source))[0]]
    after = [content_of(sample) for sample in read_data_set(str(tmp_path / 'b-*.tar'))[0]]
    assert len(after) == 66 + 105
    assert before == after
