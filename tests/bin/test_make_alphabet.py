"""bin/make_alphabet.py on transcripts as people have them."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from deepspeech_training.text.alphabet import Alphabet

ROOT = Path(__file__).resolve().parents[2]


def make(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / 'bin' / 'make_alphabet.py'), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, encoding='utf-8')


def table(path: Path, *texts: str) -> Path:
    with path.open('w', newline='', encoding='utf-8') as file:
        csv.writer(file).writerows([('wav_filename', 'transcript'), *(('missing.wav', text) for text in texts)])
    return path


def test_characters_in_order_and_the_rare_ones_with_counts(tmp_path: Path) -> None:
    first = table(tmp_path / 'a.csv', 'bad ab', 'zoo', *['aab b'] * 9)
    second = table(tmp_path / 'b.csv', 'ba e\u0301', 'b#d')
    output = tmp_path / 'alphabet.txt'
    done = make(first, second, '--output', output)
    assert done.returncode == 0, done.stderr
    lines = output.read_text(encoding='utf-8').splitlines()
    assert [line for line in lines if not line.startswith('#')] == [' ', '\\#', 'a', 'b', 'd', 'o', 'z', 'é']
    comments = [line for line in lines[2:] if line.startswith('#')]
    assert comments == [
        f"# '#' (U+0023), NUMBER SIGN, once, first in {second}:3",
        f"# 'd' (U+0064), LATIN SMALL LETTER D, 2 times, first in {first}:2",
        f"# 'o' (U+006F), LATIN SMALL LETTER O, 2 times, first in {first}:3",
        f"# 'z' (U+007A), LATIN SMALL LETTER Z, once, first in {first}:3",
        f"# 'é' (U+00E9), LATIN SMALL LETTER E WITH ACUTE, once, first in {second}:2",
    ]
    assert Alphabet.from_file(str(output)).labels == (' ', '#', 'a', 'b', 'd', 'o', 'z', 'é')


def test_every_transcript_can_be_spelled(tmp_path: Path) -> None:
    texts = ['\u00a0nbsp\ttab', 'ЖÑñ\u0303', '日本\u200b語', '\U0001f600 \\ # \\#', '\u2028 line']
    source = table(tmp_path / 'a.csv', *texts)
    for form in ('NFC', 'NFD', 'none'):
        done = make(source, '--unicode_normalization', form, '--rare', '0')
        assert done.returncode == 0, done.stderr
        path = tmp_path / 'alphabet.txt'
        path.write_text(done.stdout, encoding='utf-8', newline='')
        alphabet = Alphabet.from_file(str(path), form)
        for text in texts:
            assert alphabet.decode(alphabet.encode(alphabet.normalize(text))) == alphabet.normalize(text)
        assert '# U+00A0, NO-BREAK SPACE, once, white space that is no space' in done.stdout
        assert '# U+200B, ZERO WIDTH SPACE, once, cannot be seen' in done.stdout


def test_a_file_is_replaced_only_when_told(tmp_path: Path) -> None:
    source, output = table(tmp_path / 'a.csv', 'b'), tmp_path / 'alphabet.txt'
    output.write_text('mine\n')
    done = make(source, '--output', output)
    assert done.returncode == 2
    assert done.stderr.strip() == f'E --output={output}: is there already; --overwrite replaces it'
    assert output.read_text() == 'mine\n'
    assert make(source, '--output', output, '--overwrite').returncode == 0
    assert Alphabet.from_file(str(output)).labels == ('b',)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['missing.csv'], 'missing.csv: cannot be read: No such file'),
        (['empty.csv'], 'no transcript has a character'),
        (['a.csv', '--output', 'no/such/folder.txt'], '--output=no/such/folder.txt: cannot be written: No such file'),
    ],
)
def test_what_cannot_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path / 'a.csv', 'b')
    table(tmp_path / 'empty.csv', '')
    done = make(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert 'Traceback' not in done.stderr
