"""What is written of a data set: that which can be used, and why the rest cannot."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from deepspeech_training.data.formats import write_data_set
from deepspeech_training.doctor.fixing import fixed_paths, write_fixed
from deepspeech_training.errors import DataError, FlagError
from tests.doctor.sets import examined, found, sound_set, speech, table, wav


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding='utf-8', newline='') as file:
        return list(csv.DictReader(file))


def sick_set(folder: Path) -> Path:
    """Lines 2 to 4 are sound, 5 is missing, 6 has spaces, 7 is clipped, 8 has a wrong size."""
    rows = [*sound_set(folder), ('missing.wav', 'a'), ('b.wav', ' two  words '), ('c.wav', 'c'), ('d.wav', 'd')]
    wav(folder / 'b.wav', speech(60))
    wav(folder / 'c.wav', np.sign(speech(61)))
    wav(folder / 'd.wav', speech(62))
    path = table(folder / 'train.csv', rows, speaker=list('abcdefg'))
    wav(folder / 'd.wav', speech(62, 2.0))
    return path


def test_errors_are_left_out_and_the_rest_is_kept(tmp_path: Path) -> None:
    source = sick_set(tmp_path)
    before = source.read_bytes()
    examination, _ = examined(source)
    (tmp_path / 'fixed').mkdir()
    output = tmp_path / 'fixed' / 'usable.csv'
    fixed = write_fixed(examination, 0, str(output), strict=False)
    assert (fixed.kept, fixed.dropped, fixed.mended) == (6, 1, 1)
    rows = rows_of(output)
    assert list(rows[0]) == ['wav_filename', 'wav_filesize', 'transcript', 'speaker']
    assert [row['speaker'] for row in rows] == list('abcefg')
    assert rows[0]['wav_filename'] == '../train/0.wav'
    assert rows[3]['transcript'] == 'two words'
    assert int(rows[5]['wav_filesize']) == (tmp_path / 'd.wav').stat().st_size
    dropped = rows_of(Path(fixed.list_path))
    assert [(row['csv'], row['line'], row['kind'], row['reason']) for row in dropped] == [
        (str(source), '5', 'audio', 'the audio file does not exist')
    ]
    assert source.read_bytes() == before
    assert found(output) == [('clipping', 'usable.csv', 6)]


def test_warnings_are_left_out_where_that_is_wanted(tmp_path: Path) -> None:
    examination, _ = examined(sick_set(tmp_path))
    output = tmp_path / 'usable.csv'
    fixed = write_fixed(examination, 0, str(output), strict=True)
    assert [row['speaker'] for row in rows_of(output)] == list('abceg'), 'spaces are put right'
    assert [row['kind'] for row in rows_of(Path(fixed.list_path))] == ['audio', 'clipping']
    assert found(output) == []


def test_the_list_of_an_earlier_run_is_removed(tmp_path: Path) -> None:
    output = tmp_path / 'out.csv'
    for path, listed in ((sick_set(tmp_path), True), (table(tmp_path / 'well.csv', sound_set(tmp_path)), False)):
        examination, _ = examined(path)
        write_fixed(examination, 0, str(output), strict=False)
        assert (tmp_path / 'out.dropped.csv').exists() == listed


def test_shared_audio_stays_in_the_last_set(tmp_path: Path) -> None:
    rows = sound_set(tmp_path, count=4)
    train, test = table(tmp_path / 'train.csv', rows), table(tmp_path / 'test.csv', rows[2:3])
    examination, _ = examined(train, test)
    paths = [tmp_path / 'a.csv', tmp_path / 'b.csv']
    for number, path in enumerate(paths):
        write_fixed(examination, number, str(path), strict=False)
    assert [row['wav_filename'] for row in rows_of(paths[0])] == [rows[at][0] for at in (0, 1, 3)]
    assert [row['wav_filename'] for row in rows_of(paths[1])] == [rows[2][0]]
    assert found(*paths) == []


def test_a_row_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    source = table(tmp_path / 'train.csv', sound_set(tmp_path))
    with source.open('a', encoding='utf-8') as file:
        file.write('train/0.wav,12\n')
    examination, _ = examined(source)
    fixed = write_fixed(examination, 0, str(tmp_path / 'out.csv'), strict=False)
    assert (fixed.kept, fixed.dropped) == (3, 1)
    assert [row['line'] for row in rows_of(Path(fixed.list_path))] == ['5']


@pytest.mark.parametrize('suffix', ['.jsonl', '.sdb', '.tar'])
def test_other_formats_can_be_read_and_written(tmp_path: Path, suffix: str) -> None:
    source, other, output = sick_set(tmp_path), tmp_path / f'all{suffix}', tmp_path / f'usable{suffix}'
    examination, _ = examined(source)
    write_data_set(str(other), [sample for sample in examination.sets[0].samples if 'missing' not in sample.path])
    assert [(kind, line) for kind, _, line in found(other)] == [
        ('clipping', 5),
        ('spaces', 4),
    ]
    examination, report = examined(other)
    place = f'{other}:5' if suffix == '.jsonl' else f'{other}: '
    assert str(report.findings[0]).startswith(place)
    fixed = write_fixed(examination, 0, str(output), strict=True)
    assert (fixed.kept, fixed.dropped, fixed.mended) == (5, 1, 1)
    assert found(output) == []
    assert examined(output)[1].sets[0].speakers == dict.fromkeys('abceg', 1)
    assert Path(fixed.list_path).name == 'usable.dropped.csv'


def test_nothing_left_is_an_error_that_keeps_what_is_there(tmp_path: Path) -> None:
    source = table(tmp_path / 'train.csv', [('missing.wav', 'a')])
    (tmp_path / 'out.csv').write_text('mine')
    examination, _ = examined(source)
    with pytest.raises(DataError, match='has no row that can be used'):
        write_fixed(examination, 0, str(tmp_path / 'out.csv'), strict=False)
    assert (tmp_path / 'out.csv').read_text() == 'mine'
    assert sorted(path.name for path in tmp_path.iterdir()) == ['out.csv', 'train.csv']


def test_where_each_set_goes(tmp_path: Path) -> None:
    assert fixed_paths(['out.csv'], ['a.csv']) == ['out.csv']
    assert fixed_paths(['x.csv', 'y.csv'], ['a.csv', 'b.csv']) == ['x.csv', 'y.csv']
    assert fixed_paths(['fixed/'], ['in/a.csv', 'in/b.csv']) == ['fixed/a.csv', 'fixed/b.csv']
    assert fixed_paths([str(tmp_path)], ['in/a.csv']) == [str(tmp_path / 'a.csv')]
    assert fixed_paths([], ['a.csv']) == []


@pytest.mark.parametrize(
    ('targets', 'inputs', 'message'),
    [
        (['x.csv'], ['a.csv', 'b.csv'], 'there are 2 data sets and 1 outputs'),
        (['./a.csv'], ['a.csv'], 'would replace an input'),
        (['a.csv'], ['a.dropped.csv'], 'would replace an input'),
        (['in/'], ['in/a.csv', 'in/b.csv'], 'would replace an input'),
        (['b.csv', 'a.csv'], ['a.csv', 'b.csv'], 'would replace an input'),
        (['out/'], ['in/a.csv', 'on/a.csv'], 'two data sets would go there'),
        (['out/'], ['in/a-*.tar'], 'means several files'),
        (['out.txt'], ['a.csv'], 'its suffix names no format'),
    ],
)
def test_where_it_cannot_go(targets: list[str], inputs: list[str], message: str) -> None:
    with pytest.raises(FlagError, match=message):
        fixed_paths(targets, inputs)
