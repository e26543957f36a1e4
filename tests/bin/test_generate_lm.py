"""bin/generate_lm.py on wrong input, and what it reads; tests/system/test_making_scorers.py makes language models."""

from __future__ import annotations

import gzip
from pathlib import Path

import generate_lm
import pytest

from deepspeech_training.decoding.kenlm_programs import PROGRAMS


@pytest.fixture
def kenlm_bins(tmp_path: Path) -> str:
    """Programs that fail as KenLM's do: with words on standard error."""
    folder = tmp_path / 'bins'
    folder.mkdir()
    for name in PROGRAMS:
        program = folder / name
        program.write_text('#!/bin/sh\necho "one step done" >&2\necho "no space" >&2\nexit 1\n')
        program.chmod(0o755)
    return str(folder)


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert generate_lm.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ''
    assert 'Traceback' not in captured.err
    return captured.err


@pytest.mark.parametrize(
    ('flag', 'value', 'message'),
    [
        ('top_k', '0', 'must be from 1 to'),
        ('arpa_order', '7', 'must be from 2 to 6'),
        ('arpa_prune', '1|2', 'must be at most --arpa_order numbers, the first one 0'),
        ('arpa_prune', '0|x', 'must be at most --arpa_order numbers'),
        ('arpa_prune', '0|2|1', 'must not descend'),
        ('max_arpa_memory', 'much', "must be as '80%' or '4G'"),
        ('binary_q_bits', '40', 'must be from 2 to 25'),
        ('kenlm_bins', '/nowhere', 'there is no program lmplz or filter or build_binary'),
    ],
)
def test_wrong_flags(flag: str, value: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / 'text').write_text('a b\n')
    arguments = ['--input_txt', str(tmp_path / 'text'), '--output_dir', str(tmp_path / 'out'), f'--{flag}', value]
    told = refused(arguments, capsys)
    assert f'--{flag}={value}: ' in told
    assert message in told
    assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize(
    ('name', 'content', 'message'),
    [
        ('none.txt', None, 'No such file'),
        ('empty.txt', b' \n', 'there are no words'),
        ('latin.txt', 'Straße'.encode('latin-1'), 'is not UTF-8'),
        ('short.txt.gz', gzip.compress(b'a b c' * 100, mtime=0)[:-9], 'end-of-stream'),
        ('other.csv', b'wav_filename,text\na,b\n', 'has no column transcript'),
        ('special.txt', b'one two\nthree <s> four\n', "'<s>' in sentence 2"),
    ],
)
def test_wrong_text(
    name: str, content: bytes | None, message: str, kenlm_bins: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / name, tmp_path / 'out'
    if content is not None:
        path.write_bytes(content)
    told = refused(['--input_txt', str(path), '--output_dir', str(out), '--kenlm_bins', kenlm_bins], capsys)
    assert f'--input_txt={path}: ' in told
    assert message in told
    assert list(out.iterdir()) == []


def test_a_program_that_fails_leaves_what_was_there(
    kenlm_bins: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / 'out'
    out.mkdir()
    (out / 'lm.binary').write_text('before')
    (tmp_path / 'text').write_text('a b\n')
    told = refused(
        ['--input_txt', str(tmp_path / 'text'), '--output_dir', str(out), '--kenlm_bins', kenlm_bins], capsys
    )
    assert 'the language model: KenLM cannot make it: one step done no space' in told
    assert [each.name for each in out.iterdir()] == ['lm.binary']
    assert (out / 'lm.binary').read_text() == 'before'


def test_without_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv('PATH', str(tmp_path))
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    (tmp_path / 'text').write_text('a b\n')
    told = refused(['--input_txt', str(tmp_path / 'text'), '--output_dir', str(tmp_path / 'out')], capsys)
    assert 'run bin/install_kenlm.sh' in told


def test_words_are_counted_in_all_files(tmp_path: Path) -> None:
    (tmp_path / 'a.txt').write_text('\ufeffOne two\n\n  two \tthree\n', encoding='utf-8')
    (tmp_path / 'b.csv.gz').write_bytes(gzip.compress(b'wav_filename,transcript\nx.wav,"ONE, two"\n', mtime=0))
    paths = [str(tmp_path / 'a.txt'), str(tmp_path / 'b.csv.gz')]
    args = generate_lm.build_parser().parse_args(['--input_txt', *paths, '--output_dir', str(tmp_path)])
    counter = generate_lm.count_words(args, tmp_path / 'text')
    assert counter == {'two': 3, 'one': 1, 'one,': 1, 'three': 1}
    assert (tmp_path / 'text').read_text() == 'one two\ntwo three\none, two\n'
    assert generate_lm.choose_words(counter, 2) == ['two', 'one']
    args.keep_case = True
    assert generate_lm.count_words(args, tmp_path / 'text')['ONE,'] == 1


def test_characters_are_counted_for_models_of_bytes(tmp_path: Path) -> None:
    (tmp_path / 'a.txt').write_text('Йод  и\u0306од\nя\n', encoding='utf-8')
    flags = ['--input_txt', str(tmp_path / 'a.txt'), '--output_dir', str(tmp_path), '--bytes_output_mode']
    text = tmp_path / 'text'
    words = generate_lm.choose_words(generate_lm.count_words(generate_lm.build_parser().parse_args(flags), text), 100)
    assert words == ['д', 'й', 'о', 'я', '▁']
    words = generate_lm.with_space_word(words, text)
    assert words[:4] == ['д', 'й', 'о', 'я']
    assert words[4].startswith('▁')
    assert words[4][1:].isdecimal()
    assert text.read_text(encoding='utf-8') == f'й о д {words[4]} й о д\nя\n'


def test_a_character_that_stands_for_the_space(
    kenlm_bins: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / 'a.txt').write_text('a b\nc▁d\n', encoding='utf-8')
    flags = ['--input_txt', str(tmp_path / 'a.txt'), '--output_dir', str(tmp_path / 'out'), '--bytes_output_mode']
    assert "sentence 2: has the character '▁'" in refused([*flags, '--kenlm_bins', kenlm_bins], capsys)
