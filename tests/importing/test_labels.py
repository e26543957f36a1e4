"""Transcripts become what a model can learn, or are refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deepspeech_training.errors import DataError
from deepspeech_training.importing.labels import LabelSettings, load_validate_label, make_label
from deepspeech_training.text.alphabet import Alphabet

DEEPSPEECH_RULES = [
    ('Hello, World!', 'hello world'),
    ('  well-known_words ;  "quoted": yes?  ', 'well known words quoted yes'),
    ("It's a dog's life.", "it's a dog's life"),
    ('route 66', None),
    ('AT&T', None),
    ('(laughs) no', None),
    ('<unk> no', None),
    ('[noise]', None),
    ('a {b', None),
    ('stars * here', None),
]
"""What DeepSpeech 0.9.3's rule makes of these."""

OTHERS = [
    ('«Ça va», dit-il…', 'ça va dit il'),
    ('Don’t', "don't"),
    ('¿Qué? ¡No!', 'qué no'),
    ('tab\there\u00a0there', 'tab here there'),
    ('soft\u00adhyphen', 'softhyphen'),
    ('zero\u200bwidth', 'zerowidth'),
    ('می\u200cخواهم', 'می\u200cخواهم'),
    ('你好，世界。', '你好世界'),
    ('¼ cup', None),
    ('５', None),
    ('50 €', None),
    ('a + b', None),
    ('100%', None),
    ('...', None),
    ('', None),
    ('cafe\u0301', 'café'),
]


@pytest.mark.parametrize(('text', 'expected'), DEEPSPEECH_RULES + OTHERS)
def test_default_rules(text: str, expected: str | None) -> None:
    label, reason = make_label(text, LabelSettings())
    assert (label or None) == expected
    assert bool(reason) == (expected is None)


def test_diacritics_normal_forms_and_spaces() -> None:
    assert make_label('Ærø café 北', LabelSettings(strip_diacritics=True)) == ('r cafe', '')
    assert make_label('é', LabelSettings(normalization='NFD')) == ('e\u0301', '')
    assert make_label('e\u0301', LabelSettings(normalization='none')) == ('e\u0301', '')
    assert make_label('你好 世', LabelSettings(space_after_every_character=True)) == ('你 好 世', '')


def test_an_alphabet_filters() -> None:
    settings = LabelSettings(alphabet=Alphabet(['a', 'b', ' ']))
    assert make_label('A b', settings) == ('a b', '')
    assert make_label('abc', settings) == ('', "'c' (U+0063) is not in --filter_alphabet")


def locale(tmp_path: Path, text: str) -> str:
    path = tmp_path / 'locale.py'
    path.write_text(text, encoding='utf-8')
    return str(path)


def test_a_file_of_the_user_decides(tmp_path: Path) -> None:
    path = locale(
        tmp_path,
        'import re\n\nDIGITS = dict(zip("123", ("eins", "zwei", "drei")))\n\n'
        'def validate_label(label):\n'
        '    if "ß" in label:\n        return None\n'
        '    return re.sub("[123]", lambda found: " " + DIGITS[found[0]], label).upper()\n',
    )
    settings = LabelSettings(validate=load_validate_label(path))
    assert make_label('gib mir 3!', settings) == ('GIB MIR DREI!', '')
    assert make_label('Straße', settings) == ('', 'refused by --validate_label_locale')


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('def validate_label(label:\n', r'line 1: is no Python'),
        ('x = 1\n\nimport no_such_module\n', r"line 3: ModuleNotFoundError: No module named 'no_such_module'"),
        ('def validate(label):\n    return label\n', r'has no function validate_label\(label\)'),
        ('import sys\nsys.exit(1)\n', r'line 2: SystemExit: 1'),
        ('validate_label = 3\n', r'has no function validate_label\(label\)'),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    path = locale(tmp_path, text)
    with pytest.raises(DataError, match=message) as caught:
        load_validate_label(path)
    assert str(caught.value).startswith(f'--validate_label_locale={path}: ')


@pytest.mark.parametrize(
    ('body', 'message'),
    [
        ('    x = {}\n    return x[label]\n', r"line 3: KeyError: 'hello', for the transcript 'hello'"),
        ('    return 3\n', r"returned 3 for 'hello'; it must be a string or None"),
    ],
)
def test_a_function_that_fails(tmp_path: Path, body: str, message: str) -> None:
    validate = load_validate_label(locale(tmp_path, f'def validate_label(label):\n{body}'))
    with pytest.raises(DataError, match=message):
        make_label('hello', LabelSettings(validate=validate))


def test_a_file_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / 'rules_of_this_test.py').write_text('def clean(label):\n    return label.upper()\n')
    path = locale(tmp_path, 'from rules_of_this_test import clean as validate_label\n')
    before = list(sys.path)
    assert load_validate_label(path)('hello') == 'HELLO'
    assert sys.path == before


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(DataError, match=r'--validate_label_locale=no\.py: cannot be read: No such file'):
        load_validate_label('no.py')
