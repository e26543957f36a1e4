"""Error rates, by hand and against jiwer."""

from __future__ import annotations

import jiwer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepspeech_training.text.metrics import Transcription, error_rates

SENTENCES = st.lists(st.sampled_from(['one', 'two', 'three', 'four']), min_size=1, max_size=8).map(' '.join)


def of(src: str, res: str, loss: float = 0.0) -> Transcription:
    return Transcription.of('x.wav', src, res, loss)


@pytest.mark.parametrize(
    ('src', 'res', 'words', 'characters'),
    [
        ('one two three', 'one two three', 0, 0),
        ('one two three', 'one too three', 1, 1),
        ('one two three', 'one three', 1, 4),
        ('one two', 'one and two', 1, 4),
        ('one two', 'onetwo', 2, 1),
        ('one', '', 1, 3),
        ('one  two', 'one two', 0, 1),  # white space of any length separates words, and counts as characters
        ('чёрный кот', 'черный кот', 1, 1),
    ],
)
def test_distances(src: str, res: str, words: int, characters: int) -> None:
    one = of(src, res)

    assert (one.word_distance, one.char_distance) == (words, characters)
    assert (one.word_length, one.char_length) == (len(src.split()), len(src))
    assert one.wer == words / len(src.split())
    assert one.cer == characters / len(src)


def test_keeps_what_it_is_given() -> None:
    one = Transcription.of('a/b.wav', 'one', 'won', 1.5)

    assert (one.wav_filename, one.src, one.res, one.loss) == ('a/b.wav', 'one', 'won', 1.5)


def test_more_errors_than_words() -> None:
    assert of('one', 'o n e').wer == 3.0


@pytest.mark.parametrize(('res', 'rate'), [('', 0.0), ('one two', 1.0)])
def test_nothing_said(res: str, rate: float) -> None:
    assert (of('', res).wer, of('', res).cer) == (rate, rate)
    assert error_rates([of('', res)])[:2] == (rate, rate)


def test_rates_of_a_set_weigh_by_length() -> None:
    wer, cer, loss = error_rates([of('one two three four', 'one two three four', 1.0), of('five', 'six', 4.0)])

    assert wer == 1 / 5
    assert cer == 3 / 22
    assert loss == 2.5


def test_words_heard_where_none_were_said_count() -> None:
    assert error_rates([of('one two', 'one two'), of('', 'um')])[0] == 1 / 2


def test_no_transcriptions() -> None:
    with pytest.raises(ValueError, match='no transcriptions'):
        error_rates([])


@settings(deadline=None)
@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=5))
def test_agrees_with_jiwer(pairs: list[tuple[str, str]]) -> None:
    sources, results = [src for src, _ in pairs], [res for _, res in pairs]

    wer, cer, _ = error_rates([of(src, res) for src, res in pairs])

    assert wer == pytest.approx(jiwer.wer(sources, results))
    assert cer == pytest.approx(jiwer.cer(sources, results))
