"""Data as users have it, looked at as a whole before the first step."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from deepspeech_training import log
from deepspeech_training.config import DataConfig, FeatureConfig
from deepspeech_training.data.checks import DataSets, check_data
from deepspeech_training.data.manifest import Sample
from deepspeech_training.errors import DataError
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.byte_alphabet import ByteAlphabet

ALPHABET = Alphabet(" abcdefghijklmnopqrstuvwxyz'", 'data/alphabet.txt')
SKIP = DataConfig(on_bad_sample='skip')


@pytest.fixture(autouse=True)
def own_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tests leave nothing in the user's folders."""
    folder = tmp_path / 'caches'
    monkeypatch.setenv('XDG_CACHE_HOME', str(folder))
    return folder


def wav(path: Path, samples: int = 16000, rate: int = 16000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(samples).normal(0, 0.1, samples)
    soundfile.write(path, noise, rate, format='WAV')
    return path


def table(path: Path, *rows: tuple[str, str] | tuple[str, str, int | str]) -> str:
    """A CSV file. A row is a file name, a transcript, and perhaps a size, else that of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, 'w', encoding='utf-8', newline='') as file:
        writer = csv.writer(file)
        writer.writerow(['wav_filename', 'wav_filesize', 'transcript'])
        for name, transcript, *size in rows:
            audio = path.parent / name
            there = audio.stat().st_size if audio.is_file() else 0
            writer.writerow([name, size[0] if size else there, transcript])
    return str(path)


class Run:
    """Checks of CSV files with changeable settings."""

    def __init__(
        self,
        data: DataConfig | None = None,
        features: FeatureConfig | None = None,
        alphabet: Alphabet = ALPHABET,
        save_dir: Path | str = '',
    ) -> None:
        self.data = data or DataConfig()
        self.features = features or FeatureConfig()
        self.alphabet = alphabet
        self.save_dir = str(save_dir)

    def check(
        self,
        *,
        train: Sequence[str] = (),
        dev: Sequence[str] = (),
        test: Sequence[str] = (),
        metrics: Sequence[str] = (),
    ) -> DataSets:
        data = replace(
            self.data,
            train_files=tuple(train),
            dev_files=tuple(dev),
            test_files=tuple(test),
            metrics_files=tuple(metrics),
        )
        return check_data(data, self.features, self.alphabet, save_dir=self.save_dir, show_progressbar=False)

    def error(
        self,
        *,
        train: Sequence[str] = (),
        dev: Sequence[str] = (),
        test: Sequence[str] = (),
        metrics: Sequence[str] = (),
    ) -> str:
        """The message of the error that the check ends with."""
        with pytest.raises(DataError) as caught:
            self.check(train=train, dev=dev, test=test, metrics=metrics)
        return str(caught.value)


def names(samples: list[Sample]) -> list[str]:
    return [Path(sample.path).name for sample in samples]


# --- what comes out -----------------------------------------------------------------------------------------------


def test_sets_are_sorted_and_kept_apart(tmp_path: Path) -> None:
    for name, samples in {'a': 9000, 'b': 8000, 'c': 8500, 'd': 7000, 'e': 9500}.items():
        wav(tmp_path / f'{name}.wav', samples)
    first = table(tmp_path / 'first.csv', ('a.wav', 'one'), ('b.wav', 'two'))
    second = table(tmp_path / 'second.csv', ('c.wav', 'three'))
    third = table(tmp_path / 'third.csv', ('e.wav', 'four'), ('d.wav', 'five'))

    sets = Run().check(train=[first, second], dev=[third, second], test=[first], metrics=[second])

    assert names(sets.train) == ['b.wav', 'c.wav', 'a.wav']
    assert {path: names(samples) for path, samples in sets.dev.items()} == {
        third: ['d.wav', 'e.wav'],
        second: ['c.wav'],
    }
    assert list(sets.dev) == [third, second]
    assert {path: names(samples) for path, samples in sets.test.items()} == {first: ['b.wav', 'a.wav']}
    assert {path: names(samples) for path, samples in sets.metrics.items()} == {second: ['c.wav']}
    assert sets.train[0] == Sample(str(tmp_path / 'b.wav'), 16044, 'two', first, 3, frames=24)


def test_no_files_give_empty_sets() -> None:
    assert Run().check() == DataSets([], {}, {}, {})


def test_reverse_and_limit(tmp_path: Path) -> None:
    for name, samples in {'a': 7000, 'b': 8000, 'c': 9000}.items():
        wav(tmp_path / f'{name}.wav', samples)
    path = table(tmp_path / 'all.csv', ('a.wav', 'one'), ('b.wav', 'two'), ('c.wav', 'three'))
    data = DataConfig(reverse_train=True, limit_train=2, limit_dev=1, reverse_test=True)

    sets = Run(data).check(train=[path], dev=[path], test=[path], metrics=[path])

    assert names(sets.train) == ['c.wav', 'b.wav']
    assert names(sets.dev[path]) == ['a.wav']
    assert names(sets.test[path]) == ['c.wav', 'b.wav', 'a.wav']
    assert names(sets.metrics[path]) == ['a.wav']  # as the dev files


def test_sizes_of_the_csv_decide_the_order(tmp_path: Path) -> None:
    wav(tmp_path / 'a.wav', 7000)
    wav(tmp_path / 'b.wav', 8000)

    sets = Run().check(train=[table(tmp_path / 'a.csv', ('a.wav', 'one', 99999), ('b.wav', 'two', 1))])

    assert names(sets.train) == ['b.wav', 'a.wav']


def test_files_with_another_size_than_the_csv_says_are_mentioned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.setup(1)
    wav(tmp_path / 'a.wav', 7000)

    Run().check(train=[table(tmp_path / 'a.csv', ('a.wav', 'one'))])
    assert 'another size' not in capsys.readouterr().err

    Run().check(train=[table(tmp_path / 'a.csv', ('a.wav', 'one', 99999), ('a.wav', 'two'), ('a.wav', 'x', 5))])
    told = capsys.readouterr().err
    assert '2 audio files have another size than wav_filesize says' in told
    assert '14044 bytes, and 99999 by ' in told


def test_a_csv_file_named_twice_counts_twice(tmp_path: Path) -> None:
    wav(tmp_path / 'a.wav')
    path = table(tmp_path / 'a.csv', ('a.wav', 'one'))

    assert names(Run().check(train=[path, path]).train) == ['a.wav', 'a.wav']


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wav(tmp_path / 'sub' / 'a.wav')
    table(tmp_path / 'sub' / 'a.csv', ('a.wav', 'one'))
    monkeypatch.chdir(tmp_path)

    assert Run().check(train=['sub/a.csv']).train[0].path == 'sub/a.wav'


# --- what is wrong ------------------------------------------------------------------------------------------------


def test_every_kind_of_bad_sample_is_named(tmp_path: Path) -> None:
    wav(tmp_path / 'good.wav')
    wav(tmp_path / 'short.wav', 511)
    wav(tmp_path / 'none.wav', 0)
    wav(tmp_path / 'tight.wav', 512 + 3 * 320)  # 4 frames
    (tmp_path / 'empty.wav').write_bytes(b'')
    (tmp_path / 'text.wav').write_text('not audio')
    (tmp_path / 'folder.wav').mkdir()
    cut = wav(tmp_path / 'cut.wav')
    cut.write_bytes(cut.read_bytes()[:16000])
    path = table(
        tmp_path / 'train.csv',
        ('good.wav', 'one'),
        ('nowhere.wav', 'one'),
        ('empty.wav', 'one'),
        ('text.wav', 'one'),
        ('folder.wav', 'one'),
        ('none.wav', 'one'),
        ('short.wav', 'one'),
        ('cut.wav', 'one'),
        ('good.wav', ''),
        ('good.wav', '  '),
        ('good.wav', 'one', 'large'),
        ('tight.wav', 'aab'),
        ('tight.wav', 'aabc'),
    )

    message = Run().error(train=[path])

    expected = {
        3: 'nowhere.wav: the audio file does not exist',
        4: 'empty.wav: is empty (0 bytes)',
        5: 'text.wav: cannot be read as audio',
        6: 'folder.wav: is not a file',
        7: 'none.wav: the audio file has no samples',
        8: 'short.wav: is 31.94 ms long, shorter than one window of 32 ms',
        9: 'cut.wav: is cut off',
        10: 'good.wav: the transcript is empty',
        11: 'good.wav: the transcript is empty',
        12: "good.wav: wav_filesize is 'large'",
        14: 'tight.wav: the transcript is too long for its audio: 4 characters and 1 repeated pairs need 5 frames, '
        '0.09 s of audio have 4',
    }
    lines = message.splitlines()
    assert lines[0] == '11 problems with rows and audio files:'
    for (number, text), line in zip(expected.items(), lines[1:], strict=False):
        assert line.startswith(f'  {path}:{number}: {tmp_path}/{text}')
    assert lines[12] == (
        '11 of 13 rows cannot be used. Correct them, or leave these rows out with --on_bad_sample skip'
    )
    assert len(lines) == 13


def test_the_first_twenty_and_a_count(tmp_path: Path) -> None:
    first = table(tmp_path / 'a.csv', *[(f'a{number}.wav', 'one') for number in range(15)])
    second = table(tmp_path / 'b.csv', *[(f'b{number}.wav', 'one') for number in range(15)])

    lines = Run().error(train=[second], dev=[first]).splitlines()

    assert lines[0].startswith('30 problems')
    assert [line.split(':')[0] for line in lines[1:21]] == [f'  {second}'] * 15 + [f'  {first}'] * 5
    assert lines[21] == '  and 10 more'
    assert lines[22].startswith('30 of 30 rows')


@pytest.mark.parametrize('kind', ['train', 'dev', 'test', 'metrics'])
def test_all_sets_are_looked_at(tmp_path: Path, kind: str) -> None:
    path = table(tmp_path / 'a.csv', ('nowhere.wav', 'one'))

    data = {
        'train': DataConfig(train_files=(path,)),
        'dev': DataConfig(dev_files=(path,)),
        'test': DataConfig(test_files=(path,)),
        'metrics': DataConfig(metrics_files=(path,)),
    }[kind]

    with pytest.raises(DataError, match='does not exist'):
        check_data(data, FeatureConfig(), ALPHABET, save_dir='', show_progressbar=False)


def test_csv_files_that_cannot_be_used(tmp_path: Path) -> None:
    wav(tmp_path / 'a.wav')
    empty, headless = tmp_path / 'empty.csv', tmp_path / 'headless.csv'
    empty.write_text('')
    headless.write_text('a.wav,100,one\n')
    bad_row = table(tmp_path / 'bad_row.csv', ('nowhere.wav', 'one'), ('a.wav', 'one'))

    message = Run().error(train=[str(tmp_path / 'missing.csv'), bad_row], dev=[str(empty)], test=[str(headless)])

    assert message.startswith('3 data sets that cannot be used:\n')
    for part in ['missing.csv: cannot be read: No such file', 'empty.csv: is empty', 'headless.csv: lacks the column']:
        assert part in message
    assert '1 problem with rows and audio files:' in message
    assert f'{bad_row}:2: {tmp_path}/nowhere.wav: the audio file does not exist' in message
    assert '1 of 2 rows' in message


def test_unknown_characters_with_code_point_count_and_first_place(tmp_path: Path) -> None:
    wav(tmp_path / 'a.wav')
    train = table(tmp_path / 'a.csv', ('a.wav', 'one'), ('a.wav', 'för älg'), ('a.wav', 'älg ä'))
    dev = table(tmp_path / 'b.csv', ('a.wav', 'Ä\u200b'), ('a.wav', 'älg'))

    lines = Run().error(train=[train], dev=[dev]).splitlines()

    assert lines[0] == "4 characters not in the alphabet 'data/alphabet.txt', in 4 transcripts:"
    assert lines[1:5] == [
        f"  'ä' (U+00E4): 4 times, first in {train}:3",
        f"  'ö' (U+00F6): once, first in {train}:3",
        f"  'Ä' (U+00C4): once, first in {dev}:2",
        f'  U+200B: once, first in {dev}:2',
    ]
    assert lines[5].startswith('4 of 5 rows cannot be used')
    assert '--alphabet_config_path' in lines[5]


def test_audio_of_rows_with_unknown_characters_is_looked_at_too(tmp_path: Path) -> None:
    lines = Run().error(train=[table(tmp_path / 'a.csv', ('nowhere.wav', 'älg'))]).splitlines()

    assert 'nowhere.wav: the audio file does not exist' in lines[1]
    assert "'ä' (U+00E4): once" in lines[3]
    assert lines[4].startswith('1 of 1 rows')


def test_frames_are_counted_after_resampling(tmp_path: Path) -> None:
    # 256 samples at 8 kHz are 512 at 16 kHz, one window; 255 are 510.
    wav(tmp_path / 'enough.wav', 256, 8000)
    wav(tmp_path / 'short.wav', 255, 8000)
    # 4 frames need 512 + 3 * 320 samples at 16 kHz, 736 at 8 kHz.
    wav(tmp_path / 'four.wav', 736, 8000)
    wav(tmp_path / 'three.wav', 735, 8000)
    path = table(
        tmp_path / 'a.csv', ('enough.wav', 'a'), ('short.wav', 'a'), ('four.wav', 'abcd'), ('three.wav', 'abcd')
    )

    lines = Run().error(train=[path]).splitlines()

    assert lines[0].startswith('2 problems')
    assert 'short.wav: is 31.88 ms long' in lines[1]
    assert 'three.wav: the transcript is too long' in lines[2]
    assert 'have 3' in lines[2]


def test_labels_are_counted_not_characters(tmp_path: Path) -> None:
    wav(tmp_path / 'a.wav', 512 + 3 * 320)  # 4 frames
    path = table(tmp_path / 'a.csv', ('a.wav', 'schcha'))

    assert Run(alphabet=Alphabet(['sch', 'ch', 'a', 's', 'c', 'h'])).check(train=[path]).train
    assert '6 characters' in Run(alphabet=Alphabet('scha')).error(train=[path])


def test_other_sample_rates_where_they_must_not_be_resampled(tmp_path: Path) -> None:
    wav(tmp_path / 'a.wav', rate=8000)
    path = table(tmp_path / 'a.csv', ('a.wav', 'one'))

    message = Run(features=FeatureConfig(normalize_sample_rate=False)).error(train=[path])

    assert 'a.wav: its sample rate is 8000 Hz, not 16000 Hz' in message
    assert Run().check(train=[path]).train


def test_a_channel_that_a_file_lacks(tmp_path: Path) -> None:
    wav(tmp_path / 'mono.wav')
    soundfile.write(tmp_path / 'stereo.wav', np.random.default_rng(1).normal(0, 0.1, [16000, 2]), 16000)
    path = table(tmp_path / 'a.csv', ('stereo.wav', 'one'), ('mono.wav', 'two'))

    message = Run(features=FeatureConfig(channel=2)).error(train=[path])

    assert f'{path}:3: {tmp_path}/mono.wav: has 1 channel; there is no channel 2 (--audio_channel)' in message
    assert 'stereo.wav' not in message
    assert len(Run(features=FeatureConfig(channel=1)).check(train=[path]).train) == 2


# --- skipping -----------------------------------------------------------------------------------------------------


def skipped(folder: Path) -> list[dict[str, str]]:
    with open(folder / 'skipped_samples.csv', encoding='utf-8', newline='') as file:
        return list(csv.DictReader(file))


def test_bad_samples_are_left_out_and_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.setup(1)
    wav(tmp_path / 'a.wav')
    train = table(tmp_path / 'a.csv', ('nowhere.wav', 'älg'), ('a.wav', 'one'), ('a.wav', ''), ('a.wav', 'x', 'large'))
    dev = table(tmp_path / 'b.csv', ('a.wav', 'two'), ('nowhere.wav', 'one'))
    save_dir = tmp_path / 'new' / 'save'

    sets = Run(SKIP, save_dir=save_dir).check(train=[train], dev=[dev])

    assert [sample.transcript for sample in sets.train] == ['one']
    assert [sample.transcript for sample in sets.dev[dev]] == ['two']
    rows = skipped(save_dir)
    assert [(row['csv'], row['line'], Path(row['wav_filename']).name) for row in rows] == [
        (train, '2', 'nowhere.wav'),
        (train, '2', 'nowhere.wav'),
        (train, '4', 'a.wav'),
        (train, '5', 'a.wav'),
        (dev, '3', 'nowhere.wav'),
    ]
    assert {row['reason'] for row in rows[:2]} == {
        'the audio file does not exist',
        "the transcript has characters that are not in the alphabet: 'ä' (U+00E4)",
    }
    told = capsys.readouterr().err
    assert '4 of 6 rows cannot be used and are left out' in told
    assert str(save_dir / 'skipped_samples.csv') in told


def test_without_a_checkpoint_directory_the_log_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.setup(1)
    wav(tmp_path / 'a.wav')
    bad = [(f'nowhere{number}.wav', 'one') for number in range(25)]

    Run(SKIP).check(train=[table(tmp_path / 'a.csv', ('a.wav', 'one'), *bad)])

    told = capsys.readouterr().err
    assert '25 of 26 rows cannot be used and are left out' in told
    assert 'nowhere0.wav' in told
    assert 'nowhere19.wav' in told
    assert 'nowhere20.wav' not in told
    assert 'and 5 more' in told


def test_the_list_of_an_earlier_run_goes(tmp_path: Path) -> None:
    wav(tmp_path / 'a.wav')
    good = table(tmp_path / 'a.csv', ('a.wav', 'one'))
    bad = table(tmp_path / 'b.csv', ('a.wav', 'one'), ('nowhere.wav', 'one'))

    Run(SKIP, save_dir=tmp_path / 'save').check(train=[bad])
    assert len(skipped(tmp_path / 'save')) == 1
    Run(SKIP, save_dir=tmp_path / 'save').check(train=[good])

    assert not (tmp_path / 'save' / 'skipped_samples.csv').exists()


def test_a_list_that_cannot_be_written(tmp_path: Path) -> None:
    wav(tmp_path / 'a.wav')
    path = table(tmp_path / 'a.csv', ('a.wav', 'one'), ('nowhere.wav', 'one'))
    (tmp_path / 'save').write_text('in the way')

    message = Run(SKIP, save_dir=tmp_path / 'save').error(train=[path])

    assert 'skipped_samples.csv: cannot be written' in message


def test_limits_count_usable_samples(tmp_path: Path) -> None:
    wav(tmp_path / 'a.wav')
    path = table(tmp_path / 'a.csv', ('nowhere.wav', 'one', 1), ('a.wav', 'one', 2), ('a.wav', 'two', 3))

    sets = Run(replace(SKIP, limit_train=1)).check(train=[path])

    assert [sample.transcript for sample in sets.train] == ['one']


def test_skipping_does_not_help_csv_files_that_cannot_be_used(tmp_path: Path) -> None:
    wav(tmp_path / 'a.wav')
    good = table(tmp_path / 'a.csv', ('a.wav', 'one'), ('nowhere.wav', 'one'))

    message = Run(SKIP).error(train=[good], dev=[str(tmp_path / 'missing.csv')])

    assert message.splitlines()[0] == '1 data set that cannot be used:'
    assert 'missing.csv: cannot be read' in message
    assert 'nowhere.wav' not in message


@pytest.mark.parametrize('row', [('nowhere.wav', 'one'), ('a.wav', 'one', 'large')])
def test_a_set_of_which_nothing_is_left(tmp_path: Path, row: tuple[str, str]) -> None:
    wav(tmp_path / 'a.wav')
    good = table(tmp_path / 'a.csv', ('a.wav', 'one'))
    bad = table(tmp_path / 'b.csv', row)

    message = Run(SKIP).error(train=[good], dev=[bad])

    assert f'{bad}: has no row that can be used. The first: {bad}:2: ' in message


# --- remembering --------------------------------------------------------------------------------------------------


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The audio files that were opened, as they are."""
    from deepspeech_training.audio.reading import audio_info
    from deepspeech_training.data import probing

    paths: list[str] = []

    def remember_and_open(path: str) -> object:
        paths.append(Path(path).name)
        return audio_info(path)

    monkeypatch.setattr(probing, 'audio_info', remember_and_open)
    return paths


@pytest.mark.parametrize('save_dir', ['', 'save'])
def test_the_second_run_opens_nothing(tmp_path: Path, opened: list[str], save_dir: str) -> None:
    folder = tmp_path / save_dir if save_dir else ''
    for name in 'abc':
        wav(tmp_path / f'{name}.wav')
    train = table(tmp_path / 'a.csv', ('a.wav', 'one'), ('b.wav', 'two'))
    dev = table(tmp_path / 'b.csv', ('b.wav', 'two'), ('c.wav', 'three'))

    first = Run(save_dir=folder).check(train=[train], dev=[dev])
    assert sorted(opened) == ['a.wav', 'b.wav', 'c.wav']  # b.wav, which is in both, once
    opened.clear()
    assert Run(save_dir=folder).check(train=[train], dev=[dev]) == first
    assert Run(save_dir=folder).check(test=[dev]).test == first.dev

    assert opened == []


def test_remembered_in_the_checkpoint_directory_or_the_users_caches(tmp_path: Path, own_cache_folder: Path) -> None:
    wav(tmp_path / 'a.wav')
    path = table(tmp_path / 'a.csv', ('a.wav', 'one'))

    Run(save_dir=tmp_path / 'save').check(train=[path])
    assert len(list((tmp_path / 'save' / 'checked_audio').glob('*.json.gz'))) == 1
    assert not own_cache_folder.exists()

    Run().check(train=[path])
    assert len(list((own_cache_folder / 'deepspeech_training' / 'checked_audio').glob('*.json.gz'))) == 1


@pytest.mark.parametrize('change', ['size', 'time'])
def test_changed_files_are_opened_again(tmp_path: Path, opened: list[str], change: str) -> None:
    for name in 'ab':
        wav(tmp_path / f'{name}.wav', 8000)
    path = table(tmp_path / 'a.csv', ('a.wav', 'one'), ('b.wav', 'two'))
    Run().check(train=[path])
    opened.clear()
    before = (tmp_path / 'a.wav').stat()
    if change == 'size':
        wav(tmp_path / 'a.wav', 100)
        os.utime(tmp_path / 'a.wav', ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        content = (tmp_path / 'a.wav').read_bytes()
        (tmp_path / 'a.wav').write_bytes(b'JUNK' + content[4:])
        os.utime(tmp_path / 'a.wav', ns=(before.st_atime_ns, before.st_mtime_ns + 1))

    message = Run().error(train=[path])

    assert opened == ['a.wav']
    assert 'a.wav: ' + ('is 6.25 ms long' if change == 'size' else 'cannot be read as audio') in message


def test_a_file_that_is_gone_is_missed(tmp_path: Path) -> None:
    audio = wav(tmp_path / 'a.wav')
    path = table(tmp_path / 'a.csv', ('a.wav', 'one'))
    Run().check(train=[path])
    audio.unlink()

    assert 'a.wav: the audio file does not exist' in Run().error(train=[path])


def test_other_settings_are_applied_to_what_is_remembered(tmp_path: Path, opened: list[str]) -> None:
    wav(tmp_path / 'a.wav', 512 + 9 * 320)  # 10 frames
    path = table(tmp_path / 'a.csv', ('a.wav', 'abcdefghi'))
    Run().check(train=[path])
    opened.clear()

    assert '9 characters and 0 repeated pairs' in Run(features=FeatureConfig(step_ms=40)).error(train=[path])
    assert 'shorter than one window' in Run(features=FeatureConfig(window_ms=300)).error(train=[path])
    assert "'i' (U+0069)" in Run(alphabet=Alphabet('abcdefgh')).error(train=[path])
    assert 'not 8000 Hz' in Run(features=FeatureConfig(sample_rate=8000, normalize_sample_rate=False)).error(
        train=[path]
    )
    assert opened == []


def test_bad_files_are_not_remembered(tmp_path: Path, opened: list[str]) -> None:
    """What cannot be read today may be readable tomorrow, with other rights or another libsndfile."""
    (tmp_path / 'a.wav').write_text('not audio')
    path = table(tmp_path / 'a.csv', ('a.wav', 'one'))

    assert Run().error(train=[path]) == Run().error(train=[path])
    assert opened == ['a.wav', 'a.wav']


def test_many_files_in_several_tasks(tmp_path: Path) -> None:
    wav(tmp_path / 'original.wav', 2000)
    for number in range(300):
        os.link(tmp_path / 'original.wav', tmp_path / f'{number}.wav')
    path = table(tmp_path / 'a.csv', *[(f'{number}.wav', 'abc') for number in range(300)])

    assert names(Run().check(train=[path]).train) == [f'{number}.wav' for number in range(300)]


def test_an_interrupted_pass_remembers_what_it_saw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deepspeech_training.audio.reading import AudioInfo, audio_info
    from deepspeech_training.data import probing

    monkeypatch.setattr(probing, 'FILES_A_TASK', 1)
    monkeypatch.setattr(probing, 'THREADS', 1)
    for name in 'abc':
        wav(tmp_path / f'{name}.wav')
    path = table(tmp_path / 'a.csv', ('a.wav', 'one'), ('b.wav', 'two'), ('c.wav', 'three'))
    opened: list[str] = []
    interrupt = True

    def interruptible(audio: str) -> AudioInfo:
        opened.append(Path(audio).name)
        if interrupt and Path(audio).name == 'b.wav':
            raise KeyboardInterrupt
        return audio_info(audio)

    monkeypatch.setattr(probing, 'audio_info', interruptible)
    with pytest.raises(KeyboardInterrupt):
        Run().check(train=[path])
    interrupt = False
    opened.clear()

    assert len(Run().check(train=[path]).train) == 3
    assert 'a.wav' not in opened


# --- as a whole ---------------------------------------------------------------------------------------------------


def test_tensorflow_is_not_needed() -> None:
    program = 'import sys, deepspeech_training.data.checks; sys.exit("tensorflow" in sys.modules)'

    assert subprocess.run([sys.executable, '-c', program], check=False).returncode == 0


@pytest.mark.parametrize(('folder', 'count'), [('digits', 860), ('prompts-en', 236), ('prompts-ru', 172)])
def test_reference_data(deepspeech_data: Path, folder: str, count: int) -> None:
    own = deepspeech_data / folder / 'alphabet.txt'
    alphabet = Alphabet.from_file(str(own)) if own.exists() else ALPHABET
    train, dev, test = (str(deepspeech_data / folder / f'{name}.csv') for name in ('train', 'dev', 'test'))

    sets = Run(alphabet=alphabet).check(train=[train], dev=[dev], test=[test])

    assert len(sets.train) == count
    sizes = [sample.size for sample in sets.train]
    assert sizes == sorted(sizes)
    assert all(os.path.getsize(sample.path) == sample.size for sample in sets.train)


def test_reference_data_with_the_wrong_alphabet(deepspeech_data: Path) -> None:
    message = Run().error(train=[str(deepspeech_data / 'prompts-ru' / 'train.csv')])

    assert "'о' (U+043E)" in message
    assert '172 of 172 rows' in message


def test_bytes_are_counted_where_they_are_the_labels(tmp_path: Path) -> None:
    wav(tmp_path / 'a.wav', 512 + 4 * 320)  # 5 frames
    alphabet = ByteAlphabet(normalization='NFC')
    good = table(tmp_path / 'good.csv', ('a.wav', 'яю'), ('a.wav', 'и\u0306ж'), ('a.wav', 'яa'))
    (first, second, third) = Run(alphabet=alphabet).check(train=[good]).train
    assert [len(alphabet.encode(sample.transcript)) for sample in (first, second, third)] == [4, 4, 3]
    long = table(tmp_path / 'long.csv', ('a.wav', 'яюя'), ('a.wav', 'a\ufffd'))
    message = Run(alphabet=alphabet).error(train=[long])
    assert 'the transcript is too long for its audio: 6 bytes and 0 repeated pairs need 6 frames' in message
    assert 'U+FFFD' in message
    assert '--alphabet_config_path' not in message
