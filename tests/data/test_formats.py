"""The same utterances in every format, and files that are wrong in each."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from deepspeech_training.config import FeatureConfig
from deepspeech_training.data.formats import read_data_set, write_data_set
from deepspeech_training.data.manifest import Sample
from deepspeech_training.data.sources import load_source
from deepspeech_training.data.writing import content_of
from deepspeech_training.errors import DataError

FORMATS = ['set.csv', 'set.jsonl', 'set.sdb', 'set.tar']


def wav_bytes(samples: int = 4000, *, rate: int = 16000, seed: int = 0, subtype: str = 'PCM_16') -> bytes:
    content = io.BytesIO()
    noise = np.random.default_rng(seed).normal(0, 0.1, samples)
    soundfile.write(content, noise, rate, subtype=subtype, format='WAV')
    return content.getvalue()


@pytest.fixture
def samples(tmp_path: Path) -> list[Sample]:
    """Three WAV files, of two speakers."""
    found = []
    for number, text in enumerate(['one', 'zwei, "drei"', 'пять'], start=1):
        path = tmp_path / f'{number}.wav'
        path.write_bytes(wav_bytes(3000 + 500 * number, seed=number))
        size = path.stat().st_size
        found.append(Sample(str(path), size, text, 'given', number, speaker=f's{number % 2}'))
    return found


def tar(path: Path, *members: tuple[str, bytes | str]) -> str:
    with tarfile.open(path, 'w') as archive:
        for name, content in members:
            data = content if isinstance(content, bytes) else content.encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return str(path)


def told(samples: Sequence[Sample]) -> list[tuple[bytes, str, str, int]]:
    return [(content_of(s), s.transcript, s.speaker, s.size) for s in samples]


@pytest.mark.parametrize('name', FORMATS)
def test_what_was_written_is_read(tmp_path: Path, samples: list[Sample], name: str) -> None:
    path = str(tmp_path / name)
    write_data_set(path, samples)
    found, problems = read_data_set(path)
    assert problems == []
    assert told(found) == told(samples)
    assert [sample.line for sample in found] == {'set.csv': [2, 3, 4]}.get(name, [1, 2, 3])


@pytest.mark.parametrize('name', ['set.csv', 'set.jsonl'])
@pytest.mark.parametrize('container', ['from.sdb', 'from.tar'])
def test_audio_is_taken_out_of_containers(tmp_path: Path, samples: list[Sample], name: str, container: str) -> None:
    write_data_set(str(tmp_path / container), samples)
    path = str(tmp_path / name)
    write_data_set(path, read_data_set(str(tmp_path / container))[0])
    found, _ = read_data_set(path)
    assert told(found) == told(samples)
    assert all(sample.source is None and sample.path.startswith(str(tmp_path / 'set-audio')) for sample in found)

    before = Path(path).read_bytes()
    with pytest.raises(DataError, match='is there already'):
        write_data_set(path, read_data_set(str(tmp_path / container))[0])
    assert Path(path).read_bytes() == before
    assert not list(tmp_path.glob('*.tmp'))


@pytest.mark.parametrize('name', FORMATS)
def test_a_failure_leaves_what_was_there(tmp_path: Path, samples: list[Sample], name: str) -> None:
    path = tmp_path / name
    path.write_text('before')
    source = str(tmp_path / 'from.tar')
    write_data_set(source, samples)
    inside = read_data_set(source)[0]
    Path(source).write_bytes(Path(source).read_bytes()[:6000])
    with pytest.raises(DataError, match=r'from\.tar: [123]_[123]\.wav'):
        write_data_set(str(path), inside)
    assert path.read_text() == 'before'
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix != '.wav') == sorted(['from.tar', name])


def test_formats_are_known_by_their_content(tmp_path: Path, samples: list[Sample]) -> None:
    for name in FORMATS:
        write_data_set(str(tmp_path / name), samples)
        bare = tmp_path / f'bare-{name.partition(".")[2]}'
        (tmp_path / name).rename(bare)
        assert told(read_data_set(str(bare))[0]) == told(samples)


def test_writing_needs_a_known_suffix_and_samples(tmp_path: Path, samples: list[Sample]) -> None:
    with pytest.raises(DataError, match=r'set\.txt: its suffix names no format'):
        write_data_set(str(tmp_path / 'set.txt'), samples)
    with pytest.raises(DataError, match='no samples to write'):
        write_data_set(str(tmp_path / 'set.csv'), [])
    with pytest.raises(DataError, match=r'nowhere/set\.csv.*: cannot be written: No such file'):
        write_data_set(str(tmp_path / 'nowhere/set.csv'), samples)


def test_every_kind_of_audio_in_a_container(tmp_path: Path) -> None:
    """Tar files keep it; sample databases have 16 bits."""
    noise = np.random.default_rng(0).normal(0, 0.1, [4000, 2])
    kinds = [
        ('WAV', 'PCM_24', '.wav'),
        ('FLAC', 'PCM_16', '.flac'),
        ('OGG', 'VORBIS', '.ogg'),
        ('AU', 'PCM_16', '.wav'),
    ]
    samples = []
    for number, (kind, subtype, _) in enumerate(kinds):
        path = str(tmp_path / f'{number}.audio')
        soundfile.write(path, noise, 16000, subtype=subtype, format=kind)
        samples.append(Sample(path, os.path.getsize(path), 'one', 'given', number))
    write_data_set(str(tmp_path / 'set.tar'), samples)
    write_data_set(str(tmp_path / 'set.sdb'), samples)
    in_tar, _ = read_data_set(str(tmp_path / 'set.tar'))
    in_sdb, _ = read_data_set(str(tmp_path / 'set.sdb'))
    assert [Path(sample.path).suffix for sample in in_tar] == [suffix for _, _, suffix in kinds]
    assert [content_of(s) for s in in_tar[:3]] == [content_of(s) for s in samples[:3]]
    for first, second, third in zip(samples, in_tar, in_sdb, strict=True):
        decoded = [soundfile.read(io.BytesIO(content_of(s)), always_2d=True)[0] for s in (first, second, third)]
        np.testing.assert_allclose(decoded[1], decoded[0], atol=2**-16 if Path(second.path).suffix == '.wav' else 0)
        np.testing.assert_allclose(decoded[2], decoded[0], atol=2**-16)


class TestJsonLines:
    def read(self, folder: Path, *lines: object) -> tuple[list[Sample], list[str]]:
        path = folder / 'set.jsonl'
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text('\ufeff' + '\r\n'.join(texts), encoding='utf-8')
        samples, problems = read_data_set(str(path))
        return samples, [str(problem).removeprefix(f'{path}:') for problem in problems]

    def test_a_manifest_of_nemo(self, tmp_path: Path) -> None:
        (tmp_path / 'a.wav').write_bytes(bytes(77))
        samples, problems = self.read(
            tmp_path,
            {'audio_filepath': 'a.wav', 'duration': 3.5, 'text': 'one\u2028'},
            '',
            {'audio_filepath': '/else/b.wav', 'duration': 2, 'text': 'two', 'speaker': 17, 'lang': 'en'},
        )
        assert problems == []
        assert [(s.path, s.size, s.transcript, s.line, s.speaker) for s in samples] == [
            (str(tmp_path / 'a.wav'), 77, 'one\u2028', 1, ''),
            ('/else/b.wav', 0, 'two', 3, '17'),
        ]

    @pytest.mark.parametrize(
        ('line', 'message'),
        [
            ('{"audio_filepath": "a.wav", "text": "one"', "is no JSON: Expecting ',' delimiter in column 43"),
            ('{audio_filepath: "a.wav"}', "in column 2, at 'audio_filepath"),
            ('[1, 2]', 'is a list, not a JSON object'),
            ('17', 'is the number 17, not a JSON object'),
            ('[' * 100_000, 'is no JSON that makes sense'),
            ('9' * 10_000, 'is no JSON that makes sense'),
            ({'text': 'one'}, "lacks audio_filepath; it has 'text'"),
            ({'audio_filepath': 'a.wav'}, "lacks text; it has 'audio_filepath'"),
            ({'audio_filepath': ' ', 'text': 'one'}, "names no audio file: audio_filepath is ' '"),
            ({'audio_filepath': ['a.wav'], 'text': 'one'}, 'audio_filepath is a list, not a text'),
            ({'audio_filepath': 'a.wav', 'text': 5}, 'text is the number 5, not a text'),
            ({'audio_filepath': 'a.wav', 'text': None}, 'text is null, not a text'),
            ({'audio_filepath': 'a\0.wav', 'text': 'one'}, 'a character that no text has'),
            ({'audio_filepath': 'a.wav', 'text': '\ud800'}, 'a character that no text has'),
            ({'audio_filepath': 'a.wav', 'text': 'one', 'duration': -2}, 'duration is -2.0, not a number of seconds'),
            ({'audio_filepath': 'a.wav', 'text': 'one', 'duration': 0}, 'duration is 0, no time at all'),
            ({'audio_filepath': 'a.wav', 'text': 'one', 'duration': '2'}, "duration is '2', not a number"),
            ({'audio_filepath': 'a.wav', 'text': 'one', 'duration': True}, 'duration is True, not a number'),
            ({'audio_filepath': 'a.wav', 'text': 'one', 'duration': 10**400}, 'duration is inf'),
            ('{"audio_filepath": "a.wav", "text": "one", "duration": NaN}', 'duration is nan'),
            ({'audio_filepath': 'a.wav', 'text': 'one', 'duration': 1, 'offset': -1}, 'offset is -1.0'),
            ({'audio_filepath': 'a.wav', 'text': 'one', 'offset': 1}, 'has offset but no duration'),
        ],
    )
    def test_wrong_lines(self, tmp_path: Path, line: object, message: str) -> None:
        good = {'audio_filepath': 'a.wav', 'text': 'one'}
        samples, problems = self.read(tmp_path, good, line, good)
        assert [sample.line for sample in samples] == [1, 3]
        assert len(problems) == 1
        assert problems[0].startswith('2: ')
        assert message in problems[0]

    @pytest.mark.parametrize('subtype', ['PCM_16', 'PCM_24', 'FLOAT'])
    def test_segments_are_parts_of_the_recording(self, tmp_path: Path, subtype: str) -> None:
        (tmp_path / 'long.wav').write_bytes(wav_bytes(32000, subtype=subtype))
        samples, problems = self.read(
            tmp_path,
            {'audio_filepath': 'long.wav', 'text': 'one', 'offset': 0, 'duration': 0.5},
            {'audio_filepath': 'long.wav', 'text': 'two', 'offset': 0.5, 'duration': 1.5},
        )
        assert problems == []
        assert [sample.size for sample in samples] == [16000, 48000]
        whole, _ = soundfile.read(tmp_path / 'long.wav')
        parts = [soundfile.read(io.BytesIO(content_of(sample)))[0] for sample in samples]
        np.testing.assert_array_equal(np.concatenate(parts), whole)

        write_data_set(str(tmp_path / 'again.jsonl'), samples)
        again, _ = read_data_set(str(tmp_path / 'again.jsonl'))
        assert told(again) == told(samples)

    @pytest.mark.parametrize(('offset', 'duration'), [(2.0, 0.5), (1.5, 0.7), (30, 1)])
    def test_segments_beyond_the_recording(self, tmp_path: Path, offset: float, duration: float) -> None:
        (tmp_path / 'long.wav').write_bytes(wav_bytes(32000))
        row = {'audio_filepath': 'long.wav', 'text': 'one', 'offset': offset, 'duration': duration}
        samples, _ = self.read(tmp_path, row)
        with pytest.raises(DataError, match=f'the recording has 2.00 s, offset {offset:g} and duration {duration:g}'):
            content_of(samples[0])


class TestTarFiles:
    def test_both_kinds_of_transcript_in_any_order(self, tmp_path: Path) -> None:
        path = tar(
            tmp_path / 'set.tar',
            ('a.txt', 'one\n'),
            ('dir/b.x.WAV', wav_bytes(seed=2)),
            ('a.wav', wav_bytes(seed=1)),
            ('dir/b.x.json', '{"text": "two", "speaker": "kim"}'),
            ('c.cls', '5'),
            ('._a.wav', b'what macOS adds'),
        )
        samples, problems = read_data_set(path)
        assert problems == []
        assert [(s.path, s.transcript, s.speaker, s.line) for s in samples] == [
            (f'{path}: a.wav', 'one', '', 1),
            (f'{path}: dir/b.x.WAV', 'two', 'kim', 2),
        ]
        assert [content_of(s) for s in samples] == [wav_bytes(seed=1), wav_bytes(seed=2)]

    @pytest.mark.parametrize(
        ('members', 'message'),
        [
            ([('b.wav', wav_bytes())], 'b: has no transcript: neither b.txt nor b.json is there'),
            ([('b.txt', 'one')], 'b: has no audio beside b.txt'),
            ([('b.wav', wav_bytes()), ('b.flac', b''), ('b.txt', 'one')], 'b: has several audio files: b.wav, b.flac'),
            ([('b.wav', wav_bytes()), ('b.txt', b'\xff')], 'b: b.txt is no text in UTF-8'),
            ([('b.wav', wav_bytes()), ('b.json', '{')], 'b: b.json is no JSON'),
            ([('b.wav', wav_bytes()), ('b.json', '{"words": "one"}')], "b: b.json lacks text; it has 'words'"),
        ],
    )
    def test_wrong_entries(self, tmp_path: Path, members: list[tuple[str, bytes | str]], message: str) -> None:
        path = tar(tmp_path / 'set.tar', ('a.wav', wav_bytes()), ('a.txt', 'one'), *members)
        samples, problems = read_data_set(path)
        assert [sample.path for sample in samples] == [f'{path}: a.wav']
        assert len(problems) == 1
        assert str(problems[0]).startswith(f'{path}: {message}')

    @pytest.mark.parametrize('keep', [0, 300, 700, 3000, -1100])
    def test_cut_off(self, tmp_path: Path, keep: int) -> None:
        path = Path(tar(tmp_path / 'set.tar', ('a.txt', 'one'), ('a.wav', wav_bytes(20000))))
        content = path.read_bytes()
        used = 512 + 512 + 512 + len(wav_bytes(20000))
        path.write_bytes(content[: keep if keep >= 0 else used + keep])
        with pytest.raises(DataError, match=r'set\.tar: (is no tar file, damaged or cut off|has no utterances)'):
            read_data_set(str(path))

    def test_compressed(self, tmp_path: Path) -> None:
        path = tmp_path / 'set.tar.gz'
        with tarfile.open(path, 'w:gz') as archive:
            archive.addfile(tarfile.TarInfo('a.txt'))
        with pytest.raises(DataError, match=r'set\.tar\.gz: is compressed by gzip.*gunzip it first'):
            read_data_set(str(path))

    def test_patterns(self, tmp_path: Path) -> None:
        for number in range(8, 12):
            tar(tmp_path / f'{number:03}.tar', (f'k{number}.wav', wav_bytes()), (f'k{number}.txt', 'one'))
        for pattern in ('{008..011}.tar', '*.tar', '0??.tar', '0[01]*.tar', '{00..01}*.tar'):
            samples, problems = read_data_set(str(tmp_path / pattern))
            assert problems == []
            names = [f'{tmp_path}/{number:03}.tar: k{number}.wav' for number in range(8, 12)]
            assert [sample.path for sample in samples] == names
            assert [sample.line for sample in samples] == [1, 2, 3, 4]
            assert {sample.csv for sample in samples} == {str(tmp_path / pattern)}

    @pytest.mark.parametrize(
        ('pattern', 'message'),
        [
            ('{000..003}.tar', '003.tar: cannot be read: No such file'),
            ('none*.tar', r'none\*.tar: no file fits this pattern'),
            ('{a,b}.tar', 'braces name numbers'),
            ('{5..2}.tar', 'does not go from a number to a larger one'),
            ('*.csv', 'patterns name tar files only'),
        ],
    )
    def test_wrong_patterns(self, tmp_path: Path, pattern: str, message: str) -> None:
        for number in range(3):
            tar(tmp_path / f'{number:03}.tar', ('a.wav', wav_bytes()), ('a.txt', 'one'))
        with pytest.raises(DataError, match=message):
            read_data_set(str(tmp_path / pattern))

    def test_the_index_is_remembered_until_the_file_changes(self, tmp_path: Path) -> None:
        memory = tmp_path / 'memory'
        path = tar(tmp_path / 'set.tar', ('a.wav', wav_bytes()), ('a.txt', 'one'))
        expected = read_data_set(path, folder=str(memory))
        (index,) = memory.iterdir()
        status = os.stat(path)
        Path(path).write_bytes(bytes(status.st_size))  # nobody looks into it
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert read_data_set(path, folder=str(memory)) == expected

        tar(tmp_path / 'set.tar', ('b.wav', wav_bytes()), ('b.txt', 'two'))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
        assert read_data_set(path, folder=str(memory))[0][0].transcript == 'two'

        index.write_bytes(index.read_bytes()[:30])
        assert read_data_set(path, folder=str(memory))[0][0].transcript == 'two'


class TestSampleDatabases:
    @pytest.fixture
    def path(self, tmp_path: Path, samples: list[Sample]) -> Path:
        path = tmp_path / 'set.sdb'
        write_data_set(str(path), [replace(sample, speaker='') for sample in samples])
        return path

    def test_the_bytes_are_those_of_deepspeech(self, tmp_path: Path, samples: list[Sample]) -> None:
        """Put together by hand."""
        path = tmp_path / 'set.sdb'
        write_data_set(str(path), [replace(samples[0], speaker='')])
        meta = (
            b'{"schema": [{"content": "speech", "mime-type": "audio/wav"}, '
            b'{"content": "transcript", "mime-type": "text/plain"}]}'
        )
        audio = content_of(samples[0])
        entry = len(audio).to_bytes(4, 'big') + audio + (3).to_bytes(4, 'big') + b'one'
        body = (1).to_bytes(8, 'big') + len(entry).to_bytes(4, 'big') + entry
        head = b'SAMPLEDB' + len(meta).to_bytes(8, 'big') + meta
        offset = len(head) + 16
        index = (16).to_bytes(8, 'big') + (1).to_bytes(8, 'big') + offset.to_bytes(8, 'big')
        assert path.read_bytes() == head + len(body).to_bytes(8, 'big') + body + index

    def test_names(self, path: Path) -> None:
        samples, _ = read_data_set(str(path))
        assert [sample.path for sample in samples] == [f'{path}: sample {number}' for number in (1, 2, 3)]
        assert samples[1].place == f'{path}: sample 2'

    def test_cut_off_anywhere(self, path: Path) -> None:
        content = path.read_bytes()
        for size in (8, 12, 50, 150, 1000, len(content) // 2, len(content) - 30, len(content) - 1):
            path.write_bytes(content[:size])
            with pytest.raises(DataError, match=r'set\.sdb: (is cut off|is damaged|was not finished|.*no JSON)'):
                read_data_set(str(path))

    def test_not_finished(self, path: Path) -> None:
        content = path.read_bytes()
        begin = 16 + int.from_bytes(content[8:16], 'big')
        path.write_bytes(content[:begin] + bytes(16) + content[begin + 16 : -60])
        with pytest.raises(DataError, match='was not finished: it has no index'):
            read_data_set(str(path))

    @pytest.mark.parametrize(
        ('schema', 'message'),
        [
            ([['speech']], 'its meta data name no columns'),
            ([{'content': 'transcript', 'mime-type': 'text/plain'}], 'has no column with speech'),
            ([{'content': 'speech', 'mime-type': 'audio/wav'}], 'has no column with transcripts'),
            (
                [
                    {'content': 'speech', 'mime-type': 'application/vnd.mozilla.pcm'},
                    {'content': 'transcript', 'mime-type': 'text/plain'},
                ],
                "its audio is 'application/vnd.mozilla.pcm', and can only be audio/wav or",
            ),
        ],
    )
    def test_wrong_columns(self, tmp_path: Path, schema: object, message: str) -> None:
        meta = json.dumps({'schema': schema}).encode()
        path = tmp_path / 'set.sdb'
        path.write_bytes(b'SAMPLEDB' + len(meta).to_bytes(8, 'big') + meta + bytes(16))
        with pytest.raises(DataError) as caught:
            read_data_set(str(path))
        assert message in str(caught.value)

    @pytest.mark.parametrize('change', [lambda entry: b'\xff' * 4 + entry[4:], lambda entry: entry[:4] + b'\xff' * 4])
    def test_damaged_entries(self, path: Path, change: Callable[[bytes], bytes]) -> None:
        content = path.read_bytes()
        begin = 16 + int.from_bytes(content[8:16], 'big') + 16
        changed = change(content[begin : begin + 8])
        path.write_bytes(content[:begin] + changed + content[begin + 8 :])
        samples, problems = read_data_set(str(path))
        assert [sample.line for sample in samples] == [2, 3]
        assert str(problems[0]).startswith(f'{path}: sample 1: is damaged')

    def test_opus_as_deepspeech_packs_it(self, tmp_path: Path) -> None:
        """Decoded to what libsndfile makes of the same packets in an Ogg file of its own."""
        tone = 0.2 * np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
        tone += np.random.default_rng(0).normal(0, 0.05, 16000)  # so that all packets are coded in the same way
        ogg = io.BytesIO()
        soundfile.write(ogg, tone, 16000, format='OGG', subtype='OPUS')
        packets = opus_packets(ogg.getvalue())[:48]
        count = 960 * 16
        packed = packed_opus([packets[3 * n : 3 * n + 3] for n in range(16)], 2 * (count - 100))
        path = tmp_path / 'set.sdb'
        path.write_bytes(database('application/vnd.mozilla.opus', [(packed, b'one')]))
        (sample,), _ = read_data_set(str(path))
        assert sample.source is not None
        decoded, rate = soundfile.read(io.BytesIO(load_source(sample.path, sample.source)))
        assert (rate, len(decoded)) == (16000, count - 100)
        expected, _ = soundfile.read(io.BytesIO(ogg.getvalue()))
        skipped = int.from_bytes(ogg.getvalue()[38:40], 'little') // 3
        np.testing.assert_allclose(decoded[skipped + 400 : 12000], expected[400 : 12000 - skipped], atol=2e-3)

    @pytest.mark.parametrize('packed', [b'', bytes(10), b'\0\0\xff\xff\0\0\x3e\x80\1\2', b'\0\0\0\1\0\0\x3e\x80\1\2\0'])
    def test_damaged_opus(self, tmp_path: Path, packed: bytes) -> None:
        path = tmp_path / 'set.sdb'
        path.write_bytes(database('application/vnd.mozilla.opus', [(packed, b'one')]))
        (sample,), _ = read_data_set(str(path))
        with pytest.raises(DataError, match=r'set\.sdb: sample 1: is (cut off|no Opus)'):
            content_of(sample)


def opus_packets(ogg: bytes) -> list[bytes]:
    """The packets of an Ogg Opus file, without its two headers."""
    packets, place, packet = [], 0, b''
    while place < len(ogg):
        count = ogg[place + 26]
        sizes = ogg[place + 27 : place + 27 + count]
        place += 27 + count
        for size in sizes:
            packet += ogg[place : place + size]
            place += size
            if size < 255:
                packets.append(packet)
                packet = b''
    return packets[2:]


def packed_opus(groups: Sequence[Sequence[bytes]], length: int) -> bytes:
    """Each group of three packets of 20 ms as one of 60 ms (RFC 6716, code 3, of variable size)."""
    packed = length.to_bytes(4, 'big') + (16000).to_bytes(4, 'big') + bytes([1, 2])
    for group in groups:
        assert {packet[0] for packet in group} == {group[0][0]}
        assert not group[0][0] & 3
        sizes = b''
        for packet in group[:-1]:
            size = len(packet) - 1
            sizes += bytes([size]) if size < 252 else bytes([252 + size % 4, (size - 252 - size % 4) // 4])
        packet = bytes([group[0][0] | 3, 0x80 | len(group)]) + sizes + b''.join(packet[1:] for packet in group)
        packed += len(packet).to_bytes(2, 'big') + packet
    return packed


def database(mime_type: str, rows: Sequence[tuple[bytes, bytes]]) -> bytes:
    schema = [{'content': 'speech', 'mime-type': mime_type}, {'content': 'transcript', 'mime-type': 'text/plain'}]
    meta = json.dumps({'schema': schema}).encode()
    head = b'SAMPLEDB' + len(meta).to_bytes(8, 'big') + meta
    body, offsets = len(rows).to_bytes(8, 'big'), []
    for row in rows:
        offsets.append(len(head) + 8 + len(body))
        entry = b''.join(len(part).to_bytes(4, 'big') + part for part in row)
        body += len(entry).to_bytes(4, 'big') + entry
    index = len(rows).to_bytes(8, 'big') + b''.join(offset.to_bytes(8, 'big') for offset in offsets)
    return head + len(body).to_bytes(8, 'big') + body + len(index).to_bytes(8, 'big') + index


def test_read_audio_of_a_container_is_that_of_the_file(tmp_path: Path, samples: list[Sample]) -> None:
    from deepspeech_training.audio.reading import read_audio

    features = FeatureConfig()
    for name in ('set.sdb', 'set.tar'):
        write_data_set(str(tmp_path / name), samples)
        for one, other in zip(samples, read_data_set(str(tmp_path / name))[0], strict=True):
            found = read_audio(other.path, features, content=content_of(other))
            np.testing.assert_array_equal(found, read_audio(one.path, features))


def test_pipes_and_devices_are_no_data_sets(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / 'pipe')  # nobody writes
    for path in (str(tmp_path / 'pipe'), '/dev/zero'):
        with pytest.raises(DataError, match=f'{path}: is a pipe or a device'):
            read_data_set(path)


@pytest.mark.parametrize('name', FORMATS)
def test_damaged_bytes_are_errors_or_other_samples(tmp_path: Path, samples: list[Sample], name: str) -> None:
    """Never another exception; what is read has texts that can be written, and audio that is there or named."""
    path = tmp_path / name
    write_data_set(str(path), samples)
    good = path.read_bytes()
    random = np.random.default_rng(0)
    outcomes: set[str] = set()
    for _ in range(150):
        content = bytearray(good)
        for _ in range(random.integers(1, 5)):
            place = int(random.integers(min(len(content), 800 if random.random() < 0.6 else len(content))))
            kind = random.integers(4)
            if kind == 0:
                content[place] = int(random.integers(256))
            elif kind == 1:
                del content[place : place + int(random.integers(1, 50))]
            elif kind == 2:
                content[place:place] = random.bytes(int(random.integers(1, 9)))
            else:
                content[place : place + 8] = b'\xff' * 8
        path.write_bytes(content)
        try:
            found, problems = read_data_set(str(path))
        except DataError:
            outcomes.add('refused')
            continue
        outcomes |= {'found'} if found else set()
        assert all(str(path) in str(problem) for problem in problems)
        for sample in found:
            sample.transcript.encode()
            if sample.source is not None:
                assert len(content_of(sample)) == sample.size
    assert outcomes == {'refused', 'found'}
