"""The benchmark of the input pipeline, run on a few files."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import soundfile as sf
from input_bench.peer import time_peer

from deepspeech_training.errors import FlagError

SCRIPT = Path(__file__).resolve().parents[2] / 'bin' / 'bench_input.py'


@pytest.fixture(scope='module')
def bench_input() -> ModuleType:
    spec = importlib.util.spec_from_file_location('bench_input', SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules['bench_input'] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    lines = ['wav_filename,wav_filesize,transcript']
    for number, rate in enumerate([8000, 16000, 16000]):
        sf.write(tmp_path / f'{number}.wav', np.zeros(rate // 2), rate)
        lines.append(f'{number}.wav,{rate},ab')
    path = tmp_path / 'some.csv'
    path.write_text('\n'.join(lines) + '\n')
    return path


@pytest.mark.parametrize('backend', ['tensorflow', 'python_speech_features'])
def test_a_table_of_all_stages(
    bench_input: ModuleType, csv: Path, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench_input.main([str(csv), '--epochs', '1', '--batch_size', '2', '--feature_backend', backend]) == 0
    output = capsys.readouterr().out
    assert '3 utterances, 0.0 minutes of audio, 0.50 s an utterance; batches of 2' in output
    assert [line.split('  ')[0] for line in output.splitlines()[2:-1]] == [
        'read',
        'resample',
        'features',
        'calls, batches, copies',
        'together, CPU time',
        'pipeline, by the clock',
    ]


def test_a_feature_cache_is_measured_too(
    bench_input: ModuleType, csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / 'caches').mkdir()
    assert bench_input.main([str(csv), '--epochs', '1', '--feature_cache', str(tmp_path / 'caches')]) == 0
    output = capsys.readouterr().out
    assert 'the cache: 0.0 MB, 3.3 kB a second of audio' in output  # 24 frames of 104 bytes; two files are the same
    assert [line.split('  ')[0] for line in output.splitlines()[-4:-1]] == [
        'filling a cache, by the clock',
        'from a cache, CPU time',
        'from a cache, by the clock',
    ]
    assert not list((tmp_path / 'caches').iterdir())


def test_augmentations_are_measured_one_by_one_and_together(
    bench_input: ModuleType, csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ['--augment', 'volume', '--augment', 'pitch[p=0.5,pitch=1:2]']
    assert bench_input.main([str(csv), '--epochs', '1', *flags]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split('  ')[0] for line in lines[-5:-1]] == [
        'augment: volume',
        'augment: pitch',
        'augmented, CPU time',
        'augmented, by the clock',
    ]
    assert bench_input.main([str(csv), '--epochs', '1', '--augment', 'volum']) == 2


def test_formats_are_measured_one_by_one(
    bench_input: ModuleType, csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench_input.main([str(csv), '--epochs', '1', '--formats']) == 0
    names = [line[:30].strip() for line in capsys.readouterr().out.splitlines()]
    for name in ('WAV, 16 bits', 'WAV, mu-law', 'FLAC', 'Ogg Vorbis', 'Ogg Opus', 'MP3'):
        assert f'read: {name}' in names
        assert f'check: {name}' in names


@pytest.mark.parametrize(('python', 'reason'), [('none/python', 'cannot be run'), (sys.executable, 'torchaudio')])
def test_a_peer_that_cannot_run_is_named(python: str, reason: str) -> None:
    with pytest.raises(FlagError, match=rf'--peer_python=.*{reason}'):
        time_peer(python, [], batch_size=1, sample_rate=16000, repeats=1, audio_seconds=1.0)


def test_a_missing_file_is_named(bench_input: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_input.main(['missing.csv']) == 2
    assert 'missing.csv' in capsys.readouterr().err


def test_an_audio_file_that_is_none_is_named(
    bench_input: ModuleType, csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    csv.with_name('1.wav').write_bytes(b'no audio')
    assert bench_input.main([str(csv), '--epochs', '1']) == 2
    assert '1.wav' in capsys.readouterr().err
