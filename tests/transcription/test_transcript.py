from __future__ import annotations

import math

import numpy as np
import pytest

from deepspeech_training.config import FeatureConfig
from deepspeech_training.decoding import GreedyDecoder
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.byte_alphabet import ByteAlphabet
from deepspeech_training.transcription.transcript import Transcript, make_segment

SILENCE = np.zeros(16000, np.float32)


def said(path: str, alphabet: Alphabet, sureness: float = 0.9) -> np.ndarray:
    """Log-probabilities where each frame says a character of `path`; `-` is the blank."""
    others = (1 - sureness) / alphabet.size
    labels = [*alphabet.labels, '-']
    return np.array([[math.log(sureness if label == c else others) for label in labels] for c in path], np.float32)


def test_words_begin_with_their_first_character() -> None:
    alphabet = Alphabet(' ab')
    path = '--aa-b- -b-bb---'
    segment = make_segment('ab bb', said(path, alphabet), alphabet, FeatureConfig(), SILENCE, start=10.0)
    assert [word.text for word in segment.words] == ['ab', 'bb']
    assert [word.start for word in segment.words] == pytest.approx([10.046, 10.186])
    assert [word.end for word in segment.words] == pytest.approx([10.126, 10.266]), 'in silence, with their last'
    assert [word.confidence for word in segment.words] == pytest.approx([0.9, 0.9])
    assert segment.confidence == pytest.approx(0.9)
    assert (segment.start, segment.end) == (10.0, 11.0)


def test_a_word_ends_with_its_sound_or_where_the_next_begins() -> None:
    alphabet = Alphabet(' ab')
    samples = SILENCE.copy()
    samples[: 16000 * 4 // 10] = 0.2
    path = 'a----- b' + '-' * 40
    segment = make_segment('a b', said(path, alphabet), alphabet, FeatureConfig(), samples, start=0.0)
    first, second = segment.words
    assert first.end == second.start == pytest.approx(0.146)
    assert second.end == pytest.approx(0.4, abs=0.02)


def test_without_spaces_each_character_is_a_word() -> None:
    alphabet = Alphabet('漢字')
    segment = make_segment('漢字', said('漢-字-', alphabet), alphabet, FeatureConfig(), SILENCE, start=0.0)
    assert [word.text for word in segment.words] == ['漢', '字']
    assert Transcript('a.wav', 2.0, (segment, segment), '').text == '漢字漢字'


def test_spaces_around_words_are_no_words() -> None:
    alphabet = Alphabet(' ab')
    segment = make_segment(' a  b ', said(' a - -b -', alphabet), alphabet, FeatureConfig(), SILENCE, start=0.0)
    assert [word.text for word in segment.words] == ['a', 'b']
    assert Transcript('a.wav', 2.0, (segment, segment)).text == 'a  b a  b'


def test_nothing_was_said() -> None:
    alphabet = Alphabet(' ab')
    for frames in (0, 5):
        segment = make_segment('', said('-' * frames, alphabet).reshape(-1, 4), alphabet, FeatureConfig(), SILENCE, 0.0)
        assert (segment.text, segment.words, segment.confidence) == ('', (), 0.0)


def test_bytes_that_are_no_text_have_no_time() -> None:
    alphabet = ByteAlphabet()
    path = [label for byte in 'я \udcff x'.encode(errors='surrogateescape') for label in (byte - 1, alphabet.blank)]
    output = np.full([len(path), 256], -9.0, np.float32)
    output[np.arange(len(path)), path] = -0.1
    text = GreedyDecoder(alphabet).decode(output)
    assert text == 'я \ufffd x'
    segment = make_segment(text, output, alphabet, FeatureConfig(), SILENCE, start=0.0)
    assert segment.text == text
    assert [word.text for word in segment.words] == ['я', 'x']
    assert segment.words[0].start < segment.words[1].start
