"""CSV files as people and programs write them."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepspeech_training.data.manifest import Problem, Sample, read_csv
from deepspeech_training.errors import DataError

HEADER = 'wav_filename,wav_filesize,transcript\n'


def write(folder: Path, content: bytes | str, name: str = 'train.csv') -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def test_reads_deepspeechs_format(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER + 'a.wav,100,one\nsub/b.wav,50,two three\n/else/c.wav,7,four\n')

    samples, problems = read_csv(path)

    assert samples == [
        Sample(str(tmp_path / 'a.wav'), 100, 'one', path, 2),
        Sample(str(tmp_path / 'sub/b.wav'), 50, 'two three', path, 3),
        Sample('/else/c.wav', 7, 'four', path, 4),
    ]
    assert problems == []


def test_paths_are_relative_to_the_csv_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / 'sub').mkdir()
    write(tmp_path, HEADER + 'a.wav,1,one\n', 'sub/train.csv')
    write(tmp_path, HEADER + 'a.wav,1,one\n', 'here.csv')
    monkeypatch.chdir(tmp_path)

    assert read_csv('sub/train.csv')[0][0].path == 'sub/a.wav'
    assert read_csv('here.csv')[0][0].path == 'a.wav'


@pytest.mark.parametrize(
    'content',
    [
        HEADER + 'a.wav,1,one\nb.wav,2,two',
        '\ufeff' + HEADER + 'a.wav,1,one\nb.wav,2,two\n',
        (HEADER + 'a.wav,1,one\nb.wav,2,two\n').replace('\n', '\r\n'),
        (HEADER + 'a.wav,1,one\nb.wav,2,two\n').replace('\n', '\r'),
        '\ufeff' + (HEADER + 'a.wav,1,one\nb.wav,2,two').replace('\n', '\r\n'),
        'transcript,wav_filename,wav_filesize\none,a.wav,1\ntwo,b.wav,2\n',
        'id,wav_filename,speaker,wav_filesize,transcript\n5,a.wav,x,1,one\n6,b.wav,"y\nz",2,two\n',
        ' wav_filename , wav_filesize,transcript \na.wav, 1 ,one\nb.wav,2 ,two\n',
        '"wav_filename","wav_filesize","transcript"\n"a.wav","1","one"\n"b.wav","2","two"\n',
        '\n' + HEADER + '\na.wav,1,one\n\n\nb.wav,2,two\n\n',
    ],
)
def test_accepts(tmp_path: Path, content: str) -> None:
    samples, problems = read_csv(write(tmp_path, content))

    assert [(Path(s.path).name, s.size, s.transcript) for s in samples] == [('a.wav', 1, 'one'), ('b.wav', 2, 'two')]
    assert problems == []


def test_sizes_of_the_files_where_the_csv_names_none(tmp_path: Path) -> None:
    (tmp_path / 'a.wav').write_bytes(bytes(123))
    without = write(tmp_path, 'wav_filename,transcript\na.wav,one\nnowhere.wav,two\n')
    gap = write(tmp_path, HEADER + 'a.wav,,one\na.wav,5,two\n', 'gap.csv')

    assert [sample.size for sample in read_csv(without)[0]] == [123, 0]
    assert [sample.size for sample in read_csv(gap)[0]] == [123, 5]


def test_transcripts_stay_as_they_are(tmp_path: Path) -> None:
    samples, _ = read_csv(write(tmp_path, HEADER + 'a.wav,1," one, ""two"" "\nb.wav,1,\nc.wav,1, \n'))

    assert [sample.transcript for sample in samples] == [' one, "two" ', '', ' ']


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    content = 'wav_filename,note,transcript\n\na.wav,"two\nlines",one\nb.wav,x,two\n\nc.wav,x\nd.wav,x,three\n'

    samples, problems = read_csv(write(tmp_path, content))

    assert [(Path(sample.path).name, sample.line) for sample in samples] == [('a.wav', 3), ('b.wav', 5), ('d.wav', 8)]
    assert [problem.line for problem in problems] == [7]


@pytest.mark.parametrize(
    ('row', 'names_file', 'parts'),
    [
        ('a.wav,1', False, ['2 fields', '3 columns']),
        ('a.wav', False, ['1 fields', '3 columns']),
        ('a.wav,1,one, two', False, ['4 fields', '3 columns', 'quotation marks']),
        ('  ', False, ['1 fields']),
        (',1,one', False, ["wav_filename is ''"]),
        (' ,1,one', False, ["wav_filename is ' '"]),
        ('a.wav,many,one', True, ["wav_filesize is 'many'"]),
        ('a.wav,-1,one', True, ["wav_filesize is '-1'"]),
        ('a.wav,1.5,one', True, ["wav_filesize is '1.5'"]),
        ('a.wav,1_0,one', True, ["wav_filesize is '1_0'"]),
        ('a.wav,٣,one', True, ["wav_filesize is '٣'"]),
        ('a.wav,1,"one\ntwo"', True, ['goes on to line 4', 'quotation mark']),
        ('a.wav,1,"one\r\ntwo"', True, ['goes on to line 4', 'quotation mark']),
    ],
)
def test_bad_rows_are_named_and_others_kept(tmp_path: Path, row: str, names_file: bool, parts: list[str]) -> None:
    path = write(tmp_path, f'{HEADER}good.wav,1,one\n{row}\nalso.wav,2,two\n')

    samples, problems = read_csv(path)

    assert [Path(sample.path).name for sample in samples] == ['good.wav', 'also.wav']
    (problem,) = problems
    assert (problem.csv, problem.line) == (path, 3)
    assert problem.path == (str(tmp_path / 'a.wav') if names_file else '')
    for part in [f'{path}:3: ', *parts]:
        assert part in str(problem)


def test_null_character_in_a_file_name(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER + 'a.wav,1,one\nb\0.wav,1,two\n')

    if sys.version_info < (3, 11):  # its csv module refuses the whole file
        with pytest.raises(DataError, match=r'train\.csv:3: cannot be read as CSV'):
            read_csv(path)
    else:
        samples, problems = read_csv(path)
        assert len(samples) == 1
        assert "'b\\x00.wav'" in str(problems[0])


def test_quotation_mark_left_open(tmp_path: Path) -> None:
    rows = ''.join(f'{number}.wav,1,one\n' for number in range(20))
    path = write(tmp_path, HEADER + 'a.wav,1,one\nb.wav,1,"two\n' + rows)

    samples, problems = read_csv(path)

    assert [Path(sample.path).name for sample in samples] == ['a.wav']
    assert 'goes on to line 23' in str(problems[0])


def test_quotation_mark_left_open_in_a_large_file(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER + 'a.wav,1,one\nb.wav,1,"two\n' + 'c.wav,1,three\n' * 20000)

    with pytest.raises(DataError, match=r'train\.csv:3: cannot be read as CSV.*quotation mark'):
        read_csv(path)


@pytest.mark.parametrize(
    ('content', 'parts'),
    [
        ('', ['is empty']),
        ('\ufeff', ['is empty']),
        ('\n \n', ['is empty']),
        (HEADER, ['no rows']),
        (HEADER + '\n\n', ['no rows']),
        (
            'wav_filename,wav_filesize,text\na.wav,1,one\n',
            ['column transcript.', "'text'", 'wav_filename and transcript'],
        ),
        ('path,sentence\na.wav,one\n', ['column wav_filename and the column transcript.', "'path', 'sentence'"]),
        ('wav_filename;wav_filesize;transcript\na.wav;1;one\n', ["';'", "'wav_filename;wav_filesize;transcript'"]),
        ('wav_filename\twav_filesize\ttranscript\na.wav\t1\tone\n', [r"'\t'"]),
        ('a.wav,1,one\nb.wav,2,two\n', ['column wav_filename', "'a.wav', '1', 'one'"]),
        ('wav_filename,transcript,transcript\na.wav,one,two\n', ['transcript more than once']),
        (HEADER.encode() + b'a.wav,1,one\nb.wav,1,caf\xe9\n', [':3: is not UTF-8', 'byte 60', '0xE9']),
        (b'\xef\xbb\xbf' + HEADER.encode() + b'a.wav,1,caf\xe9\n', [':2: is not UTF-8', 'byte 51', '0xE9']),
        ((HEADER + 'a.wav,1,one\n').encode('utf-16'), [':1: is not UTF-8', 'byte 0', '0xFF']),
        (HEADER.encode() + b'a.wav,1,caf\xc3', [':2: is not UTF-8', 'byte 48', '0xC3']),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, content: bytes | str, parts: list[str]) -> None:
    path = write(tmp_path, content)

    with pytest.raises(DataError) as caught:
        read_csv(path)

    for part in [path, *parts]:
        assert part in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r'nowhere\.csv: cannot be read: No such file'):
        read_csv(str(tmp_path / 'nowhere.csv'))
    with pytest.raises(DataError, match='Is a directory'):
        read_csv(str(tmp_path))


def test_problems_name_what_they_know() -> None:
    assert str(Problem('a.csv', 3, 'b.wav', 'is empty')) == 'a.csv:3: b.wav: is empty'
    assert str(Problem('a.csv', 3, '', 'has 2 fields')) == 'a.csv:3: has 2 fields'


LINES = st.text(st.characters(exclude_categories=['Cs'], exclude_characters='\r\n\0'), max_size=20)


@settings(deadline=None)
@given(st.lists(st.tuples(LINES, st.integers(0, 10**12)), min_size=1, max_size=5), st.sampled_from(['\n', '\r\n']))
def test_reads_what_csv_writers_write(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int]], end: str
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=end)
    writer.writerow(['wav_filename', 'wav_filesize', 'transcript'])
    writer.writerows(('a.wav', size, transcript) for transcript, size in rows)
    path = write(tmp_path_factory.mktemp('csv'), text.getvalue())

    samples, problems = read_csv(path)

    assert [(sample.transcript, sample.size) for sample in samples] == rows
    assert [sample.line for sample in samples] == list(range(2, len(rows) + 2))
    assert problems == []
