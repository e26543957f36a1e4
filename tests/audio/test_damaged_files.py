"""Files with odd, damaged or missing parts: read right, or named with what is wrong. Nothing in between."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from deepspeech_training.audio import containers
from deepspeech_training.audio.reading import audio_info, read_audio
from deepspeech_training.config import FeatureConfig
from deepspeech_training.errors import DataError
from tests.sound_files import CONTAINERS, ENCODINGS, PCM_16, W64_GUID_TAIL, chunk, riff, wav, wave_format

COUNT = 16000
VALUES = np.convolve(np.random.default_rng(1).normal(0, 0.1, COUNT), np.ones(9) / 3, 'same')[:, None]
VALUES[0] = -0.01  # no two bytes that could be the name of a chunk
EXPECTED = PCM_16.decoded(VALUES)[:, 0]
DATA = PCM_16.encode(VALUES, '<')
FORMAT = chunk(b'fmt ', wave_format())
SOUND = chunk(b'data', DATA)
LIST = chunk(b'LIST', b'INFOISFT' + struct.pack('<I', 6) + b'Lavf58')
ID3 = b'ID3\3\0\0\0\0\0\x0aTIT2' + bytes(6)

FULL, CUT, NO_DATA, ZERO_BYTES, DAMAGED = 'full', 'is cut off', "No 'data' chunk", 'says 0 bytes of audio', 'is damaged'


def fields(**changes: int) -> bytes:
    """`fmt ` with other numbers."""
    values = {'tag': 1, 'channels': 1, 'rate': 16000, 'bytes': 32000, 'align': 2, 'bits': 16} | changes
    return chunk(b'fmt ', struct.pack('<HHIIHH', *values.values()))


def aligned(subtype: bytes) -> bytes:
    return chunk(b'fmt ', wave_format(extensible=True)[:24] + subtype)


PCM_SUBTYPE = bytes.fromhex('0100 0000 0000 1000 8000 00aa 0038 9b71')

ODD_FILES = {
    # What is unusual, but allowed or harmless.
    'plain': (riff(FORMAT, SOUND), FULL),
    'LIST before data': (riff(FORMAT, LIST, SOUND), FULL),
    'LIST before fmt': (riff(LIST, FORMAT, SOUND), FULL),
    'LIST behind data': (riff(FORMAT, SOUND, LIST), FULL),
    'odd chunk with padding': (riff(FORMAT, chunk(b'note', b'abc'), SOUND), FULL),
    'unknown chunk': (riff(chunk(b'zzzz', bytes(400)), FORMAT, SOUND), FULL),
    'JUNK': (riff(chunk(b'JUNK', bytes(28)), FORMAT, SOUND), FULL),
    'bext': (riff(chunk(b'bext', bytes(602)), FORMAT, SOUND), FULL),
    'short bext': (riff(chunk(b'bext', bytes(10)), FORMAT, SOUND), FULL),
    'fact': (riff(FORMAT, chunk(b'fact', struct.pack('<I', COUNT)), SOUND), FULL),
    'wrong fact': (riff(FORMAT, chunk(b'fact', struct.pack('<I', 5)), SOUND), FULL),
    'cue, smpl and id3': (
        riff(FORMAT, chunk(b'cue ', struct.pack('<I', 0)), SOUND, chunk(b'smpl', bytes(36)), chunk(b'id3 ', ID3)),
        FULL,
    ),
    'ID3 in front': (ID3 + riff(FORMAT, SOUND), FULL),
    'bytes behind the end': (riff(FORMAT, SOUND) + b'xyz' * 50, FULL),
    'zeros behind the end': (riff(FORMAT, SOUND) + bytes(1000), FULL),
    'half a sample at the end': (riff(FORMAT, chunk(b'data', DATA + b'\1')), FULL),
    'fmt with 18 bytes': (riff(chunk(b'fmt ', wave_format() + bytes(2)), SOUND), FULL),
    'extensible': (riff(aligned(PCM_SUBTYPE), SOUND), FULL),
    'sizes of a pipe': (riff(FORMAT, chunk(b'data', DATA, 0xFFFFFFFF), size=0xFFFFFFFF), FULL),
    'other sizes of a pipe': (riff(FORMAT, chunk(b'data', DATA, 0x7FFFF000), size=0x7FFFF024), FULL),
    'size of the RIFF chunk too small': (riff(FORMAT, SOUND, size=36), FULL),
    'size of the RIFF chunk zero': (riff(FORMAT, SOUND, size=0), FULL),
    'no bytes a second': (riff(fields(bytes=0), SOUND), FULL),
    'wrong alignment': (riff(fields(align=4), SOUND), FULL),
    'no alignment': (riff(fields(align=0), SOUND), FULL),
    '12 bits in 16': (riff(fields(bits=12), SOUND), FULL),
    'AU of unknown length': (
        b'.snd' + struct.pack('>5I', 24, 0xFFFFFFFF, 3, 16000, 1) + PCM_16.encode(VALUES, '>'),
        FULL,
    ),
    'AU with a note': (
        b'.snd' + struct.pack('>5I', 32, len(DATA), 3, 16000, 1) + bytes(8) + PCM_16.encode(VALUES, '>'),
        FULL,
    ),
    # What is damaged.
    'odd chunk without padding': (riff(FORMAT, chunk(b'note', b'abc', padded=False), SOUND), NO_DATA),
    'LIST beyond the file': (riff(FORMAT, chunk(b'LIST', b'INFO', 0x10000000), SOUND), NO_DATA),
    'unknown chunk beyond the file': (riff(FORMAT, chunk(b'zzzz', b'INFO', 0x10000000), SOUND), NO_DATA),
    'no data': (riff(FORMAT), NO_DATA),
    'no fmt': (riff(SOUND), NO_DATA),
    'fmt behind data': (riff(SOUND, FORMAT), NO_DATA),
    'data of no bytes': (riff(FORMAT, chunk(b'data', DATA, 0)), ZERO_BYTES),
    'all of no bytes': (riff(FORMAT, chunk(b'data', DATA, 0), size=0), ZERO_BYTES),
    'no bytes, and silence': (riff(FORMAT, chunk(b'data', bytes(COUNT), 0)), ZERO_BYTES),
    'data beyond the file': (riff(FORMAT, chunk(b'data', DATA, 2 * len(DATA))), CUT),
    'header only': (riff(FORMAT, SOUND)[:44], CUT),
    'half a header': (riff(FORMAT, SOUND)[:30], NO_DATA),
    'no channels': (riff(fields(channels=0), SOUND), 'Channel count is zero'),
    '300 channels': (riff(fields(channels=300), SOUND), DAMAGED),
    '2000 channels': (riff(fields(channels=2000), SOUND), 'Too many channels'),
    'rate 0': (riff(fields(rate=0), SOUND), 'cannot be read as audio'),
    'rate 1': (riff(fields(rate=1), SOUND), DAMAGED),
    'rate of a billion': (riff(fields(rate=10**9), SOUND), DAMAGED),
    'rate of four billions': (riff(fields(rate=0xF0000000), SOUND), 'cannot be read as audio'),
    'no bits': (riff(fields(bits=0), SOUND), 'cannot be read as audio'),
    'unknown coding': (riff(fields(tag=0), SOUND), 'cannot be read as audio'),
    'unknown coding of an extensible one': (riff(aligned(bytes(16)), SOUND), 'cannot be read as audio'),
    'zeros in front': (bytes(100) + riff(FORMAT, SOUND), 'cannot be read as audio'),
    'floats that are no numbers': (wav(np.full([COUNT, 1], np.nan), ENCODINGS[4]), 'not finite'),
    'floats that are infinite': (wav(np.where(VALUES > 0.1, np.inf, VALUES), ENCODINGS[4]), 'not finite'),
    'doubles beyond floats': (wav(np.where(VALUES > 0.1, 1e300, VALUES), ENCODINGS[5]), 'not finite'),
    'floats with the scale of integers': (wav(VALUES * 32768, ENCODINGS[4]), 'where full scale is 1'),
}  # fmt: skip


def judge(path: Path) -> list[str]:
    """What `audio_info` and `read_audio` find wrong; '' where they do not."""
    problems = []
    features = FeatureConfig()
    calls: list[Callable[[], object]] = [lambda: audio_info(str(path)), lambda: read_audio(str(path), features)]
    for call in calls:
        try:
            call()
            problems.append('')
        except DataError as error:
            problems.append(str(error))
    assert all(problem.startswith(f'{path}: ') for problem in problems if problem)
    return problems


@pytest.mark.parametrize('name', ODD_FILES)
def test_odd_file_is_read_right_or_named(tmp_path: Path, name: str) -> None:
    content, outcome = ODD_FILES[name]
    path = tmp_path / 'a.wav'
    path.write_bytes(content)

    problems = judge(path)

    if outcome == FULL:
        assert problems == ['', '']
        assert audio_info(str(path)).frames == COUNT
        np.testing.assert_array_equal(read_audio(str(path), FeatureConfig()), EXPECTED)
    else:
        assert any(outcome in problem for problem in problems)


def encoded(form: str, subtype: str | None = None, rate: int = 16000) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, VALUES, rate, format=form, subtype=subtype)
    return file.getvalue()


FORMATS: dict[str, Callable[[], bytes]] = {
    **{name: lambda write=write: write(VALUES, PCM_16, 16000) for name, write in CONTAINERS.items()},  # type: ignore[misc]
    **{
        f'{form} {subtype}': lambda form=form, subtype=subtype: encoded(form, subtype)  # type: ignore[misc]
        for form, subtype in (
            *(('FLAC', 'PCM_16'), ('FLAC', 'PCM_24'), ('OGG', 'VORBIS'), ('OGG', 'OPUS'), ('MP3', 'MPEG_LAYER_III')),
            *(('WAV', 'IMA_ADPCM'), ('WAV', 'MS_ADPCM'), ('WAV', 'GSM610'), ('CAF', 'ALAC_16'), ('AIFF', 'FLOAT')),
            *(('W64', 'MS_ADPCM'), ('NIST', 'PCM_16'), ('NIST', 'ULAW'), ('VOC', 'PCM_16'), ('IRCAM', 'PCM_16')),
        )
    },
}
WITHOUT_LENGTH = ('IRCAM PCM_16',)
"""Their headers do not say how long they are: any part is a whole."""


@pytest.mark.parametrize('part', [0.85, 0.5, 0.1, 0.02])
@pytest.mark.parametrize('name', [name for name in FORMATS if name not in WITHOUT_LENGTH])
def test_every_format_is_named_when_it_is_cut_off(tmp_path: Path, name: str, part: float) -> None:
    content = FORMATS[name]()
    path = tmp_path / 'a'
    path.write_bytes(content[: int(len(content) * part)])
    assert judge(path)[0]


@pytest.mark.parametrize('name', FORMATS)
def test_every_format_as_a_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / 'a'
    path.write_bytes(FORMATS[name]())
    assert judge(path) == ['', '']
    read = read_audio(str(path), FeatureConfig())
    rest = 1100  # of the last block
    assert COUNT <= len(read) == audio_info(str(path)).frames <= COUNT + rest
    assert np.corrcoef(read[:COUNT], EXPECTED)[0, 1] > 0.9 or 'GSM' in name  # which is for speech


@pytest.mark.parametrize('name', FORMATS)
def test_every_format_in_several_blocks(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / 'a'
    path.write_bytes(FORMATS[name]())
    whole = read_audio(str(path), FeatureConfig())
    monkeypatch.setattr(containers, 'BLOCK_SAMPLES', 4000)
    assert judge(path) == ['', '']
    np.testing.assert_allclose(read_audio(str(path), FeatureConfig()), whole, rtol=0, atol=1e-4)


@pytest.mark.parametrize('behind', [b'xyzw' * 200, bytes(800), ID3, b'TAG' + bytes(125)], ids=lambda part: part[:3])
@pytest.mark.parametrize('name', FORMATS)
def test_bytes_behind_the_end_are_no_audio(tmp_path: Path, name: str, behind: bytes) -> None:
    path, other = tmp_path / 'a', tmp_path / 'b'
    path.write_bytes(FORMATS[name]())
    other.write_bytes(path.read_bytes() + behind)
    if name == 'OGG OPUS':  # which libsndfile then reads, or does not
        assert re.search('behind its end|cannot be read as audio', judge(other)[0])
        return
    expected = read_audio(str(path), FeatureConfig())
    found = read_audio(str(other), FeatureConfig())
    if name.startswith(('NIST', 'VOC', 'IRCAM')):  # these have no room for anything behind the audio
        found = found[: len(expected)]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize('name', ['FLAC PCM_16', 'MP3 MPEG_LAYER_III', 'WAV', 'AU', 'AIFF'])
@pytest.mark.parametrize('size', [10, 3000])
def test_tags_in_front(tmp_path: Path, name: str, size: int) -> None:
    tag = b'ID3\3\0\0\0\0' + bytes([size >> 7, size & 127]) + bytes(size)
    path, other = tmp_path / 'a', tmp_path / 'b'
    path.write_bytes(FORMATS[name]())
    other.write_bytes(tag + path.read_bytes())
    assert judge(other) == ['', '']
    np.testing.assert_array_equal(read_audio(str(other), FeatureConfig()), read_audio(str(path), FeatureConfig()))


def test_chunks_behind_the_audio_of_w64(tmp_path: Path) -> None:
    path = tmp_path / 'a'
    path.write_bytes(FORMATS['W64']() + b'summ' + W64_GUID_TAIL + struct.pack('<Q', 24 + 64) + b'abcdefgh' * 8)
    assert audio_info(str(path)).frames == COUNT
    np.testing.assert_array_equal(read_audio(str(path), FeatureConfig()), EXPECTED)


@pytest.mark.parametrize(
    ('frames', 'problem'),
    [(0, 'does not say how long it is'), (2 * COUNT, 'cut off or damaged'), (2**36 - 1, 'cut off or damaged')],
)
def test_flac_whose_header_has_another_length(tmp_path: Path, frames: int, problem: str) -> None:
    content = bytearray(encoded('FLAC'))
    number = int.from_bytes(content[18:26], 'big')
    content[18:26] = (number >> 36 << 36 | frames).to_bytes(8, 'big')
    path = tmp_path / 'a'
    path.write_bytes(content)
    assert problem in judge(path)[0]


@pytest.mark.parametrize('name', ['OGG VORBIS', 'OGG OPUS', 'MP3 MPEG_LAYER_III'])
@pytest.mark.parametrize('between', [b'', b'TAG' + bytes(125), ID3, b'TAG' + bytes(125) + ID3], ids=len)
def test_streams_one_after_another(tmp_path: Path, name: str, between: bytes) -> None:
    if name.startswith('OGG'):
        between = b''
    path = tmp_path / 'a'
    path.write_bytes(FORMATS[name]() + between + FORMATS[name]())
    assert 'several recordings' in judge(path)[0]


def test_flac_whose_first_frame_is_gone(tmp_path: Path) -> None:
    """libsndfile then stands before the start of the file."""
    content = encoded('FLAC')
    path = tmp_path / 'a'
    for place in range(42, 120):
        path.write_bytes(content[:place] + content[place + 100 :])
        assert judge(path)[0] or audio_info(str(path)).frames == COUNT


def test_sound_files_are_checked_in_silence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The library for MP3 complains when it has to begin in the middle."""
    random = np.random.default_rng(1)
    for number in range(20):
        moments = np.arange(8000 + 700 * number) / 16000
        values = np.sin(2000 * moments**2) * 0.3 + random.normal(0, 0.03, len(moments)) * (np.sin(9 * moments) > 0)
        path = tmp_path / f'{number}.mp3'
        soundfile.write(path, values, 16000, format='MP3')
        assert judge(path) == ['', '']
    assert capfd.readouterr().err == ''


def test_rf64_whose_sizes_are_false(tmp_path: Path) -> None:
    content = bytearray(FORMATS['RF64']())
    start = content.index(b'ds64') + 8
    content[start : start + 24] = struct.pack('<3Q', 10**14, 10**14, 10**14)
    path = tmp_path / 'a'
    path.write_bytes(content)
    assert CUT in judge(path)[0]
