"""bin/play_augmented.py on real files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image

SCRIPT = Path(__file__).resolve().parents[2] / 'bin' / 'play_augmented.py'


def play(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def audio(tmp_path: Path) -> Path:
    path = tmp_path / 'some.wav'
    tone = 0.5 * np.sin(2 * np.pi * 1000 * np.arange(16000) / 16000)
    soundfile.write(path, tone, 16000)
    return path


def test_audio_and_image(audio: Path, tmp_path: Path) -> None:
    """A quieter tone, an octave up, twice as fast: 49 frames become 24 (half of 49, halves to even numbers)."""
    texts = ('volume[dbfs=-20:-30]', 'pitch[pitch=2]', 'tempo[factor=2]')
    found = play(audio, '--output', tmp_path / 'out', '--clock', '0.5', *(f'--augment={text}' for text in texts))
    assert found.returncode == 0, found.stderr
    assert 'volume[dbfs=-25] pitch[pitch=2] tempo[factor=2] | peak -3.0 -> -25.0 dBFS, 49 frames -> 24' in found.stdout
    samples, rate = soundfile.read(tmp_path / 'out' / 'some.1.wav')
    assert (len(samples), rate) == (16000, 16000)
    assert 20 * np.log10(np.abs(samples).max()) + 3.0103 == pytest.approx(-25, abs=0.05)
    picture = np.asarray(Image.open(tmp_path / 'out' / 'some.1.png'))
    assert picture.shape == (2 * (257 + 4) + 2 * (104 + 4) - 4, 49 * 16)
    before, after = picture[:257], picture[261:518]
    assert set(before.argmax(axis=0)) == {256 - 32}, '1 kHz'
    assert set(after[:, : 24 * 16].argmax(axis=0)) == {256 - 64}, '2 kHz'
    assert (after[:, 24 * 16 :] == 128).all()


def test_several_of_several(audio: Path, tmp_path: Path) -> None:
    (tmp_path / 'other').mkdir()
    other = tmp_path / 'other' / 'some.wav'
    other.write_bytes(audio.read_bytes())
    found = play(audio, other, '--augment=dropout[domain=signal]', '--number=2', '--output', tmp_path / 'out')
    assert found.returncode == 0, found.stderr
    written = sorted(path.name for path in (tmp_path / 'out').glob('*.wav'))
    assert written == ['some-2.1.wav', 'some-2.2.wav', 'some.1.wav', 'some.2.wav']
    one, two, three = ((tmp_path / 'out' / name).read_bytes() for name in ('some.1.wav', 'some.2.wav', 'some-2.1.wav'))
    assert one != two
    assert one == three, 'the same audio and the same number'


def test_what_is_wrong_is_said(audio: Path, tmp_path: Path) -> None:
    for arguments, message in (
        ([audio, '--augment=volum'], 'did you mean volume?'),
        ([tmp_path / 'missing.wav', '--augment=volume'], 'missing.wav: cannot be read'),
        ([audio, '--augment=overlay[source=missing]'], "'source=missing'"),
    ):
        found = play(*arguments, '--output', tmp_path / 'out')
        assert found.returncode == 2
        assert message in found.stderr
        assert 'Traceback' not in found.stderr
    (tmp_path / 'file').touch()
    found = play(audio, '--augment=volume', '--output', tmp_path / 'file')
    assert found.returncode == 2
    assert 'cannot be written' in found.stderr


def test_a_channel(audio: Path, tmp_path: Path) -> None:
    tone, rate = soundfile.read(audio)
    soundfile.write(audio, np.stack([tone, tone / 10], axis=1), rate)
    flags = ['--output', tmp_path / 'out', '--augment=dropout[p=0]']
    assert 'peak -23.0 -> -23.0 dBFS' in play(audio, *flags, '--audio_channel', '2').stdout
    lacking = play(audio, *flags, '--audio_channel', '3')
    assert lacking.returncode == 2
    assert 'there is no channel 3' in lacking.stderr
