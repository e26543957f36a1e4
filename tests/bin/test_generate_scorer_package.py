"""bin/generate_scorer_package.py on wrong input; tests/system/test_making_scorers.py uses what it makes."""

from __future__ import annotations

from pathlib import Path

import generate_scorer_package
import pytest

from deepspeech_training.decoding.scorer_file import read_scorer_file

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def arguments(deepspeech_data: Path, tmp_path: Path) -> dict[str, str]:
    folder = deepspeech_data / 'deepspeech-0.9.3' / 'ldc93s1'
    return {
        'alphabet': str(ROOT / 'data' / 'alphabet.txt'),
        'lm': str(folder / 'pruned_lm.scorer'),
        'vocab': str(folder / 'vocab.pruned.txt'),
        'package': str(tmp_path / 'own.scorer'),
    }


def run(arguments: dict[str, str]) -> int:
    return generate_scorer_package.main([f'--{flag}={value}' for flag, value in arguments.items() if value])


def test_new_weights_for_a_scorer(arguments: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    file = read_scorer_file(arguments['package'])
    assert (file.alpha, file.beta) == (0.931289039105002, 1.1834137581510284)
    assert run({**arguments, 'default_alpha': '-0.25', 'default_beta': '3'}) == 0
    file = read_scorer_file(arguments['package'])
    assert (file.alpha, file.beta) == (-0.25, 3.0)
    assert 'own.scorer: 3540 words in 3451 states, alpha -0.25, beta 3.0' in capsys.readouterr().err


def test_left_out_words_are_counted(
    arguments: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / 'vocab').write_text('spot Straße öl\nword zyxw\n', encoding='utf-8')
    assert run({**arguments, 'vocab': str(tmp_path / 'vocab')}) == 0
    told = capsys.readouterr().err
    assert '2 words cannot be written with' in told
    assert "left out: 'Straße', 'öl'" in told
    assert '1 words are unknown to' in told
    assert ': 2 words in ' in told


@pytest.mark.parametrize(
    ('flag', 'value', 'message'),
    [
        ('alphabet', 'none.txt', "the alphabet 'none.txt' cannot be read"),
        ('lm', 'none.binary', '--lm=none.binary: No such file'),
        ('lm', __file__, f'--lm={__file__}: is neither a KenLM binary nor an ARPA file'),
        ('lm', str(ROOT), 'Is a directory'),
        ('vocab', '', 'does not have the names of its words; give them with --vocab'),
        ('vocab', 'none.txt', '--vocab=none.txt: No such file'),
        ('vocab', '/dev/null', 'the list of words for it is empty'),
        ('package', '/proc/none/a.scorer', '--package=/proc/none/a.scorer: cannot be written: '),
        ('default_alpha', 'nan', '--default_alpha=nan: must be a number'),
        ('force_bytes_output_mode', 'true', "the words must be single characters, and 'spot' is not"),
        ('alphabet', '', '--alphabet is missing'),
    ],
)
def test_wrong_input(
    flag: str, value: str, message: str, arguments: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    package = Path(arguments['package'])
    package.write_text('before')
    assert run({**arguments, flag: value}) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert 'Traceback' not in captured.err
    assert package.read_text() == 'before'
