"""The grammar format: what it means, and what it refuses."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from espeak_corpus.grammar import Grammar

from deepspeech_training.errors import DataError

HOME = Path(__file__).resolve().parents[2] / 'data' / 'demo' / 'home.gram'


def samples(text: str, count: int = 2000) -> Counter[str]:
    grammar = Grammar.from_text(text)
    rng = random.Random(1)
    return Counter(grammar.sample(rng) for _ in range(count))


def test_a_grammar_speaks_every_sentence_it_describes_and_no_other() -> None:
    text = 'public <a> = [please] turn (on | off) <lamp>; <lamp> = the light | it;'
    expected = {
        f'{please}turn {state} {lamp}'
        for please in ('', 'please ')
        for state in ('on', 'off')
        for lamp in ('the light', 'it')
    }
    assert set(samples(text)) == expected
    assert Grammar.from_text(text).size() == len(expected)


def test_weights_count_and_options_are_spoken_half_of_the_time() -> None:
    counts = samples('public <a> = /3/ yes | no;', 4000)
    assert 0.70 < counts['yes'] / 4000 < 0.80
    counts = samples('public <a> = stop [now];', 4000)
    assert 0.45 < counts['stop now'] / 4000 < 0.55


def test_header_comments_quotes_and_several_public_rules() -> None:
    text = """#JSGF V1.0 UTF-8 en;
    // a comment; with signs | < (
    /* another
       one */ grammar com.example.home;
    public <one> = "o'clock (sharp)" /* here too */ | it's;
    public <two> = зажги свет;
    """
    assert set(samples(text, 200)) == {"o'clock (sharp)", "it's", 'зажги свет'}


def test_words_tell_their_line() -> None:
    assert Grammar.from_text('public <a> = b\n<c>;\n<c> = [d] b;').words() == {'b': 1, 'd': 3}


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('', 'no rules'),
        ('<a> = b;', r'line 1: no public rule.*public <a>'),
        ('public <a> = b', r"line 1: ';' expected at the end of <a>.*the end of the file"),
        ('public <a> b;', r"line 1: '=' expected after <a>, but there is 'b'"),
        ('public a = b;', r"line 1: a rule expected.*'a'"),
        ('\npublic <a> = (b | c;', r"line 2: '\)' expected for the '\(' in line 2"),
        ('\npublic <a> =\n[b;', r"line 3: '\]' expected for the '\[' in line 3"),
        ('public <a> = b | ;', r"line 1: words, <a rule>, \( or \[ expected, but there is ';'"),
        ('public <a> = <>;', 'line 1: a rule needs a name'),
        ('public <a> = <b;', "line 1: '<' without its '>'"),
        ('public <a> = b\n"c;', r"""line 2: '"' without its second"""),
        ('public <a> = b*;', r"line 1: '\*' is a repetition"),
        ('public <a> = b+;', r"line 1: '\+' is a repetition"),
        ('public <a> = b {tag};', 'line 1: tags'),
        ('public <a> = b /2/;', "line 1: ';' expected at the end of <a>.*but there is /2/"),
        ('public <a> = /c/ b;', 'line 1: the weight /c/ is no positive number'),
        ('public <a> = /0/ b | c;', 'line 1: the weight /0/ is no positive number'),
        ('public <a> = b;\n<a> = c;', 'line 2: <a> is defined a second time, after line 1'),
        ('public <a> = b\n<rooom>;\n<room> = c;', r'line 2: there is no rule <rooom>; near it: <room>'),
        ('public <a> = <b>;\n<b> = c [<a>];', 'line 2: a rule leads to itself: <a> -> <b> -> <a>'),
        ('public <a> = <a> b;', 'line 1: a rule leads to itself: <a> -> <a>'),
        ('public <a> = [b];', 'line 1: <a> can be an empty sentence'),
        ('public <a> = ([b] | c) <d>;\n<d> = [e];', 'line 1: <a> can be an empty sentence'),
    ],
)
def test_what_is_no_grammar_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as raised:
        Grammar.from_text(text, 'home.gram')
    assert str(raised.value).startswith('home.gram')


def test_a_file_that_cannot_be_read_or_is_not_utf8(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r'nowhere\.gram: cannot be read'):
        Grammar.from_file(str(tmp_path / 'nowhere.gram'))
    path = tmp_path / 'latin.gram'
    path.write_bytes('public <a> = grün;'.encode('latin-1'))
    with pytest.raises(DataError, match=r'latin\.gram: not UTF-8: byte 15 is 0xfc'):
        Grammar.from_file(str(path))


def test_the_demo_grammar_has_thousands_of_sentences_in_the_alphabet() -> None:
    grammar = Grammar.from_file(str(HOME))
    assert grammar.size() > 2000
    assert all(set(word) <= set("abcdefghijklmnopqrstuvwxyz'") for word in grammar.words())
