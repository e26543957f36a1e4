"""The language of `--augment`: what it means, and that whatever is wrong is said, quoting it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepspeech_training.augment_specs import (
    DOMAINS,
    OPERATIONS,
    Limits,
    parse_augmentation,
    parse_augmentations,
    parse_range,
)
from deepspeech_training.config import Config, DataConfig
from deepspeech_training.errors import FlagError
from deepspeech_training.validation import validate

ROOT = Path(__file__).resolve().parent.parent
WIDE = Limits(-1e6, 1e6)

DEEPSPEECH_EXAMPLE = (
    'overlay[p=0.5,source=noise.csv,layers=1,snr=50:20~10]',
    'reverb[p=0.1,delay=50.0~30.0,decay=10.0:2.0~1.0]',
    'resample[p=0.1,rate=12000:8000~4000]',
    'codec[p=0.1,bitrate=48000:16000]',
    'volume[p=0.1,dbfs=-10:-40]',
    'pitch[p=0.1,pitch=1~0.2]',
    'tempo[p=0.1,factor=1~0.5]',
    'warp[p=0.1,nt=4,nf=1,wt=0.5:1.0,wf=0.1:0.2]',
    'frequency_mask[p=0.1,n=1:3,size=1:5]',
    'time_mask[p=0.1,domain=signal,n=3:10~2,size=50:100~40]',
    'dropout[p=0.1,rate=0.05]',
    'add[p=0.1,domain=signal,stddev=0~0.5]',
    'multiply[p=0.1,domain=features,stddev=0~0.5]',
)
"""The command of DeepSpeech 0.9's manual."""


def random() -> np.random.Generator:
    return np.random.default_rng(1)


def test_the_example_of_deepspeechs_manual() -> None:
    specs = parse_augmentations(DEEPSPEECH_EXAMPLE)
    assert {spec.name for spec in specs} == set(OPERATIONS)
    assert [DOMAINS.index(spec.domain) for spec in specs] == sorted(DOMAINS.index(spec.domain) for spec in specs)
    assert [spec.name for spec in specs if spec.domain == 'signal'] == ['time_mask', 'add']
    overlay = specs[0]
    assert (overlay.p, overlay.source, overlay.ranges['snr'].spread) == (0.5, 'noise.csv', 10)
    assert [spec.name for spec in specs if not spec.moves] == ['add', 'pitch', 'tempo', 'dropout', 'multiply']


@pytest.mark.parametrize('name', sorted(set(OPERATIONS) - {'overlay'}))
def test_a_name_alone_has_its_defaults(name: str) -> None:
    spec = parse_augmentation(name)
    assert (spec.name, spec.p, spec.domain) == (name, 1.0, OPERATIONS[name].domains[0])
    assert set(spec.ranges) == set(OPERATIONS[name].parameters)
    assert parse_augmentation(f' {name}[] ').ranges == spec.ranges


@pytest.mark.parametrize(
    ('text', 'clock', 'least', 'most'),
    [
        ('1.5', 0.3, 1.5, 1.5),
        ('1.2~0.4', 0.3, 0.8, 1.6),
        ('-0.2:1.2', 0.0, -0.2, -0.2),
        ('-0.2:1.2', 0.5, 0.5, 0.5),
        ('-0.2:1.2', 1.0, 1.2, 1.2),
        ('4:6~2', 0.0, 2.0, 6.0),
        ('4:6~2', 1.0, 4.0, 8.0),
        ('1e3~.5', 0.0, 999.5, 1000.5),
    ],
)
def test_values_over_training(text: str, clock: float, least: float, most: float) -> None:
    each, numbers = parse_range('x', text, WIDE), random()
    picked = [each.pick(clock, numbers) for _ in range(2000)]
    assert min(picked) >= least - 1e-9
    assert max(picked) <= most + 1e-9
    if least < most:
        assert np.mean(picked) == pytest.approx((least + most) / 2, abs=0.05 * (most - least))
        assert max(picked) - min(picked) > 0.98 * (most - least), 'uniform, up to both ends'


def test_whole_numbers_are_rounded_and_limits_hold() -> None:
    each, numbers = parse_range('n', '1:3~2', Limits(0, 4, whole=True)), random()
    assert {each.pick(0.5, numbers) for _ in range(500)} == {0, 1, 2, 3, 4}
    assert {each.pick(0.0, numbers) for _ in range(500)} == {0, 1, 2, 3}, 'not below 0'
    assert parse_range('n', '1:4', Limits(0, 9, whole=True)).pick(0.4, numbers) == 2


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('', "'' is no augmentation; there are overlay, reverb"),
        ('volum', "'volum' is no augmentation; did you mean volume?"),
        ('volume[dbfs=loud]', "'dbfs=loud': must be a number or a range: START:END moves"),
        ('volume[dbfs=1:2:3]', "'dbfs=1:2:3': must be a number or a range"),
        ('volume[dbfs=nan]', "'dbfs=nan': must be a number"),
        ('volume[dbfs=10]', "'dbfs=10': 10 is not between -200 and 3.0103"),
        ('volume[dbfs=1e999]', "'dbfs=1e999': inf is not between"),
        ('volume[dbfs=-10~-3]', "'dbfs=-10~-3': the spread behind ~ is -3"),
        ('volume[db=-10]', "'db=-10': volume has no 'db'; did you mean dbfs?"),
        ('volume[-10]', "'-10': write each parameter as name=value"),
        ('volume[dbfs=]', "'dbfs=': write each parameter"),
        ('volume[dbfs=-10,]', "'': write each parameter"),
        ('volume[dbfs=-10,dbfs=-20]', "'dbfs=-20': dbfs is given twice"),
        ('volume[p=1.5]', "'p=1.5': 1.5 is not between 0 and 1"),
        ('volume[p=0:1]', "'p=0:1': must be one number, not a range"),
        ('volume[dbfs=-10', "'[dbfs=-10': its ']' is missing"),
        ('volume dbfs=-10]', "']': there is no '[' before it"),
        ('volume[dbfs=-10][p=1]', "'[dbfs=-10][p=1]': there is more than one '[' or ']'"),
        ('volume[p=1] pitch', "'pitch' behind ']': write a --augment of its own"),
        ('overlay[snr=3]', 'source is missing: write overlay[source=noise.csv]'),
        ('codec[bitrate=1600.5]', "'bitrate=1600.5': 1600.5 is not a whole number"),
        ('codec[domain=signal]', "'domain=signal': codec has no 'domain'"),
        ('add[domain=sample]', "'domain=sample': must be one of signal, spectrogram, features"),
    ],
)
def test_the_wrong_part_is_quoted(text: str, message: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse_augmentations([text])
    assert str(caught.value).startswith(f'--augment={text}: {message}')


def test_all_problems_are_named_at_once() -> None:
    data = DataConfig(
        train_files=('a.csv',), augment=('volume[dbfs=x]', 'pitch', 'tempo[factor=0]'), train_batch_size=0
    )
    with pytest.raises(FlagError) as caught:
        validate(Config(data=data))
    assert [line.split(':')[0] for line in str(caught.value).splitlines()] == [
        '--train_batch_size=0',
        '--augment=volume[dbfs=x]',
        '--augment=tempo[factor=0]',
    ]


NUMBERS = st.decimals(-900, 900, places=3).map(str)
WORDS = st.sampled_from([*OPERATIONS, 'p', 'n', 'size', 'source', 'domain', 'stddev', 'signal', 'x', '1', '0.5', '-3'])


@given(NUMBERS, st.none() | NUMBERS, st.none() | st.decimals(0, 900, places=3).map(str), st.floats(0, 1))
def test_what_is_written_is_what_is_meant(start: str, end: str | None, spread: str | None, clock: float) -> None:
    text = start + (f':{end}' if end else '') + (f'~{spread}' if spread else '')
    each = parse_range('x', text, WIDE)
    assert (each.start, each.end, each.spread) == (float(start), float(end or start), float(spread or 0))
    centre = each.start + (each.end - each.start) * clock
    assert abs(each.pick(clock, random()) - centre) <= each.spread + 1e-9


@settings(max_examples=500)
@given(
    st.text(max_size=40)
    | st.lists(WORDS | st.sampled_from(list('[]=,:~ ')), max_size=12).map(''.join)
    | st.tuples(st.sampled_from(list(OPERATIONS)), st.text(max_size=20)).map(lambda parts: f'{parts[0]}[{parts[1]}]')
)
def test_any_text_is_an_augmentation_or_an_error_that_quotes_it(text: str) -> None:
    try:
        (spec,) = parse_augmentations([text])
    except FlagError as error:
        assert str(error).startswith(f'--augment={text}: ')  # noqa: PT017 - an error is one of two right answers
    else:
        assert 0 <= spec.p <= 1
        for each in spec.ranges.values():
            for clock in (0.0, 0.5, 1.0):
                assert each.limits.least <= each.pick(clock, random()) <= each.limits.most


@pytest.mark.parametrize(
    ('augment', 'message'),
    [
        ('volume[dbfs=loud]', "--augment=volume[dbfs=loud]: 'dbfs=loud': must be a number"),
        ('overlay[source=missing.csv]', "'source=missing.csv': missing.csv: cannot be read: No such file"),
    ],
)
def test_the_program_ends_before_tensorflow(augment: str, message: str, tmp_path: Path) -> None:
    (tmp_path / 'alphabet.txt').write_text('a\n')
    program = (
        'import sys\nfrom deepspeech_training.cli import main\n'
        f"status = main(['--train_files=a.csv', '--alphabet_config_path=alphabet.txt', '--augment', '{augment}',\n"
        "    '--checkpoint_dir=c', '--summary_dir=s'])\n"
        "assert 'tensorflow' not in sys.modules\nsys.exit(status)\n"
    )
    found = subprocess.run(
        [sys.executable, '-c', program],
        cwd=tmp_path,
        env={'PYTHONPATH': str(ROOT), 'HOME': str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == 2, found.stderr
    assert message in found.stderr
    assert 'Traceback' not in found.stderr
