"""Which `Config`s are accepted, and what is said about the others."""

from __future__ import annotations

import math
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from deepspeech_training.config import (
    LSTM_IMPLEMENTATIONS,
    CheckpointConfig,
    Config,
    DataConfig,
    ExportConfig,
    FeatureConfig,
    ModelConfig,
    ParallelConfig,
    ReportConfig,
    ScheduleConfig,
)
from deepspeech_training.errors import CheckpointError, FlagError
from deepspeech_training.flags.table import FLAGS
from deepspeech_training.start_checks import check_paths
from deepspeech_training.validation import CHOICES, RANGES, Range, validate

TRAIN = Config(data=DataConfig(train_files=('train.csv',), dev_files=('dev.csv',)))


def changed(config: Config, attribute: str, value: Any) -> Config:
    """`config` with one value changed; `attribute` as in 'data.limit_train'."""
    part, _, name = attribute.rpartition('.')
    if not part:
        return replace(config, **{name: value})
    return replace(config, **{part: replace(getattr(config, part), **{name: value})})


def problems(config: Config) -> list[str]:
    with pytest.raises(FlagError) as caught:
        validate(config)
    return str(caught.value).splitlines()


def test_defaults_are_valid_for_every_task() -> None:
    validate(TRAIN)
    validate(Config(data=DataConfig(train_files=('train.csv',))))
    validate(Config(data=DataConfig(test_files=('test.csv',))))
    validate(Config(export=ExportConfig(export_dir='model')))
    validate(Config(one_shot_infer='a.wav'))


@pytest.mark.parametrize(('samples', 'frames'), [(0, 0), (511, 0), (512, 1), (831, 1), (832, 2), (16000, 49)])
def test_frames_of_audio(samples: int, frames: int) -> None:
    assert FeatureConfig().frames(samples) == frames


@pytest.mark.parametrize('flag', sorted(RANGES))
def test_numbers_out_of_range_name_flag_value_and_range(flag: str) -> None:
    attribute, allowed = RANGES[flag]
    for bound, offset in ((allowed.at_least, -1), (allowed.above, 0), (allowed.at_most, 1), (allowed.below, 0)):
        if bound is not None:
            bad = (
                math.nextafter(bound, offset * math.inf if offset else bound)
                if FLAGS[flag].kind == 'float'
                else int(bound) + offset
            )
            assert f'--{flag}={bad}: must be {allowed}' in problems(changed(TRAIN, attribute, bad))


@pytest.mark.parametrize('flag', sorted(flag for flag in RANGES if FLAGS[flag].kind == 'float'))
@pytest.mark.parametrize('value', [math.nan, math.inf])
def test_floats_must_be_finite(flag: str, value: float) -> None:
    attribute, allowed = RANGES[flag]
    assert problems(changed(TRAIN, attribute, value)) == [f'--{flag}={value}: must be {allowed}']


def test_every_number_has_a_range() -> None:
    """A number that is added to `Config` is not forgotten here."""
    covered = {attribute for attribute, _ in RANGES.values()}
    numbers = {
        f'{part.name}.{attribute.name}'
        for part in fields(Config)
        if not isinstance(getattr(TRAIN, part.name), (str, int))
        for attribute in fields(getattr(TRAIN, part.name))
        if attribute.type in ('int', 'float')
    }
    assert numbers | {'random_seed'} == covered


@pytest.mark.parametrize(
    ('allowed', 'text'),
    [
        (Range(at_least=0, below=1), 'at least 0 and below 1'),
        (Range(above=0), 'above 0'),
        (Range(at_least=1, at_most=3), 'at least 1 and at most 3'),
    ],
)
def test_ranges_read_well(allowed: Range, text: str) -> None:
    assert str(allowed) == text


@pytest.mark.parametrize('flag', sorted(CHOICES))
def test_other_choices_are_refused(flag: str) -> None:
    attribute, choices = CHOICES[flag]
    assert problems(changed(TRAIN, attribute, 'Other')) == [
        f'--{flag}=Other: must be one of {", ".join(choices)}',
    ]
    for choice in choices:
        validate(changed(changed(TRAIN, 'schedule.dev_wer_every', 1), attribute, choice))


def test_the_best_by_wer_needs_a_wer() -> None:
    best = changed(TRAIN, 'schedule.best_by', 'wer')
    assert problems(best) == ['--best_by=wer: needs the word error rate of --dev_wer_every, which is 0']
    without = changed(changed(best, 'schedule.dev_wer_every', 3), 'data.dev_files', ())
    assert problems(without) == ['--best_by=wer: needs the word error rate on --dev_files, and there are none']


def test_choices_of_lstm_are_those_of_the_model() -> None:
    from deepspeech_training.model.lstm.registry import LSTM_IMPLEMENTATIONS as REGISTERED

    assert set(LSTM_IMPLEMENTATIONS) == {'auto', *REGISTERED}


def test_dropout_rates_that_follow_the_first_are_not_named_again() -> None:
    model = ModelConfig(dropout=(1.0, 1.0, 1.0, 0.0, -0.5, 1.0))
    assert problems(replace(TRAIN, model=model)) == [
        '--dropout_rate=1.0: must be at least 0 and below 1',
        '--dropout_rate5=-0.5: must be at least 0 and below 1',
    ]


def test_windows_are_whole_samples() -> None:
    features = FeatureConfig(sample_rate=11025, window_ms=33, step_ms=40)
    assert problems(replace(TRAIN, features=features)) == [
        '--feature_win_len=33: at --audio_sample_rate=11025 that is 363.825 samples; it must be a whole number of them',
    ]
    validate(replace(TRAIN, features=FeatureConfig(sample_rate=8000)))


@pytest.mark.parametrize('name', ['', 'a/b', '..', 'a\0b'])
@pytest.mark.parametrize('flag', ['file_name', 'model_name', 'author_id', 'model_version'])
def test_names_that_become_file_names(flag: str, name: str) -> None:
    named = problems(changed(TRAIN, f'export.{flag}', name))
    assert len(named) == 1
    assert f'{flag}={name!r}' in named[0]


def test_nothing_to_do_says_what_to_give() -> None:
    assert 'nothing to do: give --train_files' in problems(Config())[0]
    only_dev = problems(Config(data=DataConfig(dev_files=('dev.csv',))))
    assert '--dev_files and --metrics_files need --train_files' in only_dev[0]


def test_what_watches_the_dev_loss_needs_dev_files() -> None:
    schedule = ScheduleConfig(early_stop=True, reduce_lr_on_plateau=True)
    assert problems(replace(TRAIN, schedule=schedule, data=DataConfig(train_files=('train.csv',)))) == [
        '--early_stop: needs the loss on --dev_files, and there are none',
        '--reduce_lr_on_plateau: needs the loss on --dev_files, and there are none',
    ]
    validate(replace(TRAIN, schedule=schedule))
    validate(Config(schedule=schedule, data=DataConfig(test_files=('test.csv',))))


def test_plateau_comes_before_early_stop() -> None:
    schedule = ScheduleConfig(early_stop=True, es_epochs=10, reduce_lr_on_plateau=True, plateau_epochs=10)
    assert problems(replace(TRAIN, schedule=schedule)) == [
        '--plateau_epochs=10: must be below --es_epochs=10, or training stops before the learning rate is reduced'
    ]
    validate(replace(TRAIN, schedule=replace(schedule, early_stop=False)))


def test_float16_is_for_gpus() -> None:
    config = replace(TRAIN, parallel=ParallelConfig(cpu_towers=2), model=ModelConfig(compute_type='float16'))
    assert problems(config) == [
        '--cpu_towers=2: does not fit --mixed_precision_type=float16, which runs on GPUs only; '
        '--mixed_precision_type=bfloat16 runs on CPUs'
    ]
    validate(changed(config, 'model.compute_type', 'auto'))


def test_cudnn_is_for_gpus() -> None:
    assert problems(replace(TRAIN, parallel=ParallelConfig(train_cudnn=True), model=ModelConfig(lstm='block'))) == [
        '--train_cudnn: does not fit --lstm_implementation=block; leave out one of them'
    ]
    assert problems(replace(TRAIN, parallel=ParallelConfig(cpu_towers=2), model=ModelConfig(lstm='cudnn'))) == [
        '--cpu_towers=2: does not fit --lstm_implementation=cudnn, which runs on GPUs only'
    ]


@pytest.mark.parametrize(
    ('values', 'told'),
    [
        ({'unfreeze_at_epoch': 2}, '--unfreeze_at_epoch=2: there is nothing to unfreeze'),
        ({'freeze_source_layers': 2, 'load_train': 'init'}, '--load_train=init these layers would keep random weights'),
        ({'freeze_source_layers': 4, 'drop_source_layers': 3}, 'together they are at most 6'),
        (
            {'freeze_source_layers': 6, 'unfreeze_at_epoch': 1},
            '--freeze_source_layers=6: must be at least 0 and at most',
        ),
    ],
)
def test_frozen_layers_have_weights_that_are_worth_it(values: dict[str, Any], told: str) -> None:
    named = problems(replace(TRAIN, checkpoints=CheckpointConfig(**values)))
    assert len(named) == 1
    assert told in named[0]
    validate(replace(TRAIN, checkpoints=CheckpointConfig(freeze_source_layers=4, drop_source_layers=2)))


@pytest.fixture
def run(tmp_path: Path) -> Config:
    """A run that trains, tests and exports into folders that do not exist yet."""
    (tmp_path / 'alphabet.txt').write_text('a\n')
    return Config(
        data=DataConfig(
            train_files=('train.csv',),
            test_files=('test.csv',),
            alphabet_config_path=str(tmp_path / 'alphabet.txt'),
        ),
        checkpoints=CheckpointConfig(load_dir=str(tmp_path / 'runs/a'), save_dir=str(tmp_path / 'runs/a')),
        report=ReportConfig(
            summary_dir=str(tmp_path / 'summaries'), test_output_file=str(tmp_path / 'report' / 'test.json')
        ),
        export=ExportConfig(export_dir=str(tmp_path / 'model')),
    )


def test_checking_paths_leaves_nothing_behind(run: Config, tmp_path: Path) -> None:
    check_paths(run)
    assert os.listdir(tmp_path) == ['alphabet.txt']


def test_folders_that_exist_are_kept(run: Config, tmp_path: Path) -> None:
    (tmp_path / 'runs').mkdir()
    check_paths(run)
    assert sorted(os.listdir(tmp_path)) == ['alphabet.txt', 'runs']
    assert os.listdir(tmp_path / 'runs') == []


@pytest.mark.parametrize(
    ('attribute', 'flag'),
    [
        ('checkpoints.save_dir', 'save_checkpoint_dir'),
        ('report.summary_dir', 'summary_dir'),
        ('export.export_dir', 'export_dir'),
    ],
)
def test_folders_that_cannot_be_written(run: Config, tmp_path: Path, attribute: str, flag: str) -> None:
    (tmp_path / 'file').write_text('not a folder')
    for folder in (tmp_path / 'file', tmp_path / 'file' / 'below'):
        with pytest.raises(FlagError) as caught:
            check_paths(changed(run, attribute, str(folder)))
        assert str(caught.value).startswith(f'--{flag}={folder}: cannot be written: ')


def test_test_output_file_must_be_a_file_in_a_folder(run: Config, tmp_path: Path) -> None:
    with pytest.raises(FlagError, match='is a folder; give the name of a file'):
        check_paths(changed(run, 'report.test_output_file', str(tmp_path)))
    (tmp_path / 'file').write_text('not a folder')
    with pytest.raises(FlagError, match=r'test_output_file=.*file: cannot be written: '):
        check_paths(changed(run, 'report.test_output_file', str(tmp_path / 'file' / 'test.json')))


@pytest.mark.skipif(os.geteuid() == 0, reason='the superuser may write everywhere')
def test_read_only_folder(run: Config, tmp_path: Path) -> None:
    locked = tmp_path / 'locked'
    locked.mkdir(mode=0o555)
    with pytest.raises(FlagError, match=r'export_dir=.*: cannot be written: Permission denied'):
        check_paths(changed(run, 'export.export_dir', str(locked / 'model')))


def test_missing_alphabet(run: Config, tmp_path: Path) -> None:
    with pytest.raises(FlagError, match=f'--alphabet_config_path={tmp_path}/other.txt: no such file'):
        check_paths(changed(run, 'data.alphabet_config_path', f'{tmp_path}/other.txt'))
    with pytest.raises(FlagError, match=f'--alphabet_config_path={tmp_path}: is no file'):
        check_paths(changed(run, 'data.alphabet_config_path', str(tmp_path)))


def test_frozen_layers_come_from_a_checkpoint(run: Config, tmp_path: Path) -> None:
    frozen = changed(run, 'checkpoints.freeze_source_layers', 3)
    with pytest.raises(CheckpointError, match=r'--freeze_source_layers=3: there is no checkpoint in .*runs/a'):
        check_paths(frozen)
    (tmp_path / 'checkpoint').touch()
    check_paths(changed(frozen, 'checkpoints.load_dir', str(tmp_path)))
    check_paths(changed(frozen, 'checkpoints.save_dir', str(tmp_path)))


def test_evaluation_needs_a_checkpoint(run: Config, tmp_path: Path) -> None:
    evaluation = changed(run, 'data.train_files', ())
    with pytest.raises(CheckpointError, match=r'runs/a does not exist.*--checkpoint_dir'):
        check_paths(evaluation)
    (tmp_path / 'runs' / 'a').mkdir(parents=True)
    with pytest.raises(CheckpointError, match='runs/a has no checkpoint'):
        check_paths(evaluation)
    (tmp_path / 'runs' / 'a' / 'best_dev_checkpoint').write_text('')
    check_paths(evaluation)
