"""One data set, split into three."""

from __future__ import annotations

import json
import logging
from collections import Counter
from pathlib import Path

import pytest

from deepspeech_training import cli
from deepspeech_training.data.auto_input import AutoInput, split_input
from deepspeech_training.data.formats import read_data_set
from deepspeech_training.errors import DataError
from tests.toy import write_tones


def table(folder: Path, speakers: list[str], first: int = 0) -> str:
    """A CSV file of files that are not there; a speaker each, none where they are all empty."""
    rows = [f'clips/{first + n}.wav,10,ab{"cd"[n % 2]},{speaker}' for n, speaker in enumerate(speakers)]
    path = folder / 'all.csv'
    path.write_text('\n'.join(['wav_filename,wav_filesize,transcript,speaker', *rows, '']))
    return str(path)


def split(path: str, save_dir: Path | str = '', **settings: bool) -> AutoInput:
    return split_input(path, str(save_dir), 'NFC', **{'with_alphabet': True, 'skip_bad': False, **settings})


def parts(found: AutoInput) -> dict[str, str]:
    """Which part each audio file is in."""
    return {
        Path(sample.path).name: part
        for part, path in (('train', found.train), ('dev', found.dev), ('test', found.test))
        if path
        for sample in read_data_set(path)[0]
    }


def test_by_a_hash_that_new_rows_do_not_change(tmp_path: Path) -> None:
    found = split(table(tmp_path, [''] * 500))
    before = parts(found)
    counts = Counter(before.values())
    assert len(before) == 500
    assert 370 < counts['train'] < 430
    assert min(counts['dev'], counts['test']) > 30
    assert [Path(path).name for path in (found.train, found.dev, found.test, found.alphabet)] == [
        *('all.train.csv', 'all.dev.csv', 'all.test.csv', 'all.alphabet.txt')
    ]
    assert Path(found.alphabet).read_text() == 'a\nb\nc\nd\n'

    after = parts(split(table(tmp_path, [''] * 700)))
    assert {name: after[name] for name in before} == before


def test_no_speaker_is_in_two_parts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    speakers = [f's{number}' for number in range(20) for _ in range(number + 1)]
    with caplog.at_level(logging.INFO):
        found = split(table(tmp_path, speakers))
    of_part = {
        part: {sample.speaker for sample in read_data_set(path)[0]}
        for part, path in (('train', found.train), ('dev', found.dev), ('test', found.test))
    }
    assert sum(map(len, of_part.values())) == 20
    assert set.union(*of_part.values()) == set(speakers)
    counts = Counter(parts(found).values())
    assert all(0.05 <= counts[part] / len(speakers) <= 0.15 for part in ('dev', 'test'))
    assert f'210 samples, split by speaker ({len(of_part["train"])} for train, ' in caplog.text


@pytest.mark.parametrize('speakers', [[*'vwxyz'], [*'vwx'] + ['y'] * 47 + ['z'] * 50, [*'vwxxyz'] * 3])
def test_few_speakers(tmp_path: Path, speakers: list[str]) -> None:
    found = split(table(tmp_path, speakers))
    of_part = [{sample.speaker for sample in read_data_set(path)[0]} for path in (found.train, found.dev, found.test)]
    assert sorted(speaker for part in of_part for speaker in part) == [*'vwxyz']


def test_too_few_speakers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        split(table(tmp_path, [*'wxyz'] * 50))
    assert 'split by a hash of their names, since 4 speakers are too few' in caplog.text


def test_speakers_of_some_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        split(table(tmp_path, ['x', 'y', 'z', ''] * 20))
    assert 'split by a hash of their names, since 20 name no speaker' in caplog.text


def test_again_and_over_own_files_only(tmp_path: Path) -> None:
    path = table(tmp_path, [''] * 50)
    found = split(path)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    assert split(path) == found
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before

    path = table(tmp_path, [''] * 60)
    split(path)
    assert len(parts(found)) == 60

    Path(found.dev).write_text('mine')
    with pytest.raises(DataError, match=r'all\.dev\.csv is there already, and was not written for it, or was changed'):
        split(table(tmp_path, [''] * 70))
    assert Path(found.dev).read_text() == 'mine'
    assert not [file for file in tmp_path.iterdir() if len(file.name) > 20]


def test_foreign_alphabets_stay(tmp_path: Path) -> None:
    (tmp_path / 'all.alphabet.txt').write_text('x\n')
    with pytest.raises(DataError, match=r'all\.alphabet\.txt is there already.*--alphabet_config_path'):
        split(table(tmp_path, [''] * 50))
    assert split(table(tmp_path, [''] * 50), with_alphabet=False).alphabet == ''
    assert (tmp_path / 'all.alphabet.txt').read_text() == 'x\n'


def test_another_alphabet_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    split(table(tmp_path, [''] * 50))
    path = Path(table(tmp_path, [''] * 50))
    path.write_text(path.read_text().replace('abc', 'xyz'))
    split(str(path))
    assert 'all.alphabet.txt: has other characters now' in caplog.text


def test_parts_of_recordings_stay_such(tmp_path: Path) -> None:
    rows = [
        {'audio_filepath': 'a.wav', 'text': 'ab', 'offset': n, 'duration': 0.5, 'speaker': 'xyz'[n % 3]}
        for n in range(30)
    ]
    (tmp_path / 'all.jsonl').write_text(''.join(f'{json.dumps(row)}\n' for row in rows))
    found = split(str(tmp_path / 'all.jsonl'))
    assert found.train.endswith('all.train.jsonl')
    samples = [sample for path in (found.train, found.dev, found.test) for sample in read_data_set(path)[0]]
    assert len(samples) == 30
    assert {sample.path for sample in samples} == {f'{tmp_path}/a.wav [{float(n)} s + 0.5 s]' for n in range(30)}


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        ('wav_filename,transcript\na.wav\n', '1 rows cannot be used; --on_bad_sample skip leaves them out'),
        ('wav_filename,transcript\n', 'no utterances to use'),
        ('SAMPLEDB', 'all.csv: is'),
    ],
)
def test_wrong_input(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / 'all.csv').write_text(content)
    with pytest.raises(DataError) as caught:
        split(str(tmp_path / 'all.csv'))
    assert message in str(caught.value)


class TestProgram:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        rows = []
        for number in range(12):
            write_tones(tmp_path / f'{number}.wav', 'abc'[number % 3] * 3)
            rows.append(f'{number}.wav,{"abc"[number % 3] * 3},{"uvwxyz"[number % 6]}')
        (tmp_path / 'all.csv').write_text('\n'.join(['wav_filename,transcript,client_id', *rows, '']))
        return tmp_path

    def run(self, capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
        status = cli.main(
            [
                *('--auto_input_dataset', 'all.csv', '--checkpoint_dir', 'ck', '--summary_dir', 'curves'),
                *('--epochs', '1', '--n_hidden', '4', '--cpu_towers', '1', '--train_batch_size', '4', *args),
            ]
        )
        return status, capsys.readouterr().err

    def test_trains_and_tests(self, capsys: pytest.CaptureFixture[str]) -> None:
        status, told = self.run(capsys)
        assert status == 0, told
        assert '12 samples, split by speaker (4 for train, 1 for dev, 1 for test): 8 for train, 2 for dev' in told
        assert 'has no effect' not in told
        assert Path('ck/best_dev_checkpoint').exists()

    @pytest.mark.parametrize('flag', ['train_files', 'dev_files', 'test_files'])
    def test_conflicts(self, capsys: pytest.CaptureFixture[str], flag: str) -> None:
        status, told = self.run(capsys, f'--{flag}', 'other.csv')
        assert status == 2
        assert f'--auto_input_dataset=all.csv: does not fit --{flag}=other.csv' in told

    def test_weights_are_of_files(self, capsys: pytest.CaptureFixture[str]) -> None:
        status, told = self.run(capsys, '--train_weights', 'all.csv=2')
        assert status == 2
        assert '--train_weights=all.csv=2: does not fit --auto_input_dataset' in told

    def test_its_own_alphabet_is_not_made_over_one_that_is_given(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path('letters.txt').write_text('a\nb\n')
        status, told = self.run(capsys, '--alphabet_config_path', 'letters.txt')
        assert status == 2
        assert "not in the alphabet 'letters.txt'" in told
        assert not Path('all.alphabet.txt').exists()
