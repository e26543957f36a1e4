"""Transcriptions on disk, their totals in memory."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepspeech_training.evaluation import confusions
from deepspeech_training.evaluation.confusions import Confusions, most_frequent
from deepspeech_training.evaluation.results import Results
from deepspeech_training.text.edits import align_words
from deepspeech_training.text.metrics import Transcription, error_rates

SENTENCES = st.lists(st.sampled_from(['one', 'two', 'three', 'four']), min_size=1, max_size=6).map(' '.join)


def of(name: str, src: str, res: str, loss: float = 0.0) -> Transcription:
    return Transcription.of(name, src, res, loss)


def test_sets_and_all_of_them_together() -> None:
    with Results(['a.csv', 'b.csv']) as results:
        results.add(0, 0, of('1', 'one two', 'one too', 1.0))
        results.add(1, 0, of('2', 'one', 'one', 2.0))
        results.add(1, 1, of('3', 'two', 'two three', 6.0))
        first, second, overall = *results.summaries, results.overall()
    assert (first.name, first.utterances, first.words, first.wer, first.loss) == ('a.csv', 1, 2, 0.5, 1.0)
    assert (second.substitutions, second.deletions, second.insertions, second.wer) == (0, 0, 1, 0.5)
    assert (second.wrong_utterances, second.loss) == (1, 4.0)
    assert (overall.utterances, overall.words, overall.word_distance, overall.wer) == (3, 4, 2, 0.5)
    assert overall.loss == 3.0
    assert overall.confusions.substitutions == {('two', 'too'): 1}
    assert overall.confusions.insertions == {'three': 1}
    interval = overall.bootstrap.wer()
    assert interval.low < 0.5 < interval.high


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=8))
def test_rates_are_those_of_the_whole_list(pairs: list[tuple[str, str]]) -> None:
    transcriptions = [of('x', src, res, 1.0) for src, res in pairs]
    with Results(['a']) as results:
        for line, one in enumerate(transcriptions):
            results.add(0, line, one)
        overall = results.overall()
        assert [each.transcription for each in results.read(range(len(results)))] == transcriptions
    assert (overall.wer, overall.cer, overall.loss) == pytest.approx(error_rates(transcriptions))


def test_they_are_ranked_by_rate_then_loss() -> None:
    with Results(['a', 'b']) as results:
        for number, (set_number, res, loss) in enumerate(
            [(0, 'no', 1.0), (1, 'one', 3.0), (0, 'one', 2.0), (0, 'no', 5.0), (0, 'one', 4.0)]
        ):
            results.add(set_number, number, of(str(number), 'one', res, loss))
        assert results.ranking(0).tolist() == [4, 2, 3, 0]
        assert results.ranking(1).tolist() == [1]
        assert results.worst_first().tolist() == [3, 0, 4, 1, 2]
        worst = next(results.read(results.worst_first()))
        assert (worst.set_name, worst.transcription.wav_filename) == ('a', '3')


def test_the_order_in_which_they_come_makes_no_difference() -> None:
    """As from several processes."""
    utterances = [
        (number % 2, number, of(str(number), 'one two', f'{"abcd"[number % 4]} two', 1.0)) for number in range(8)
    ]
    found = []
    for order in (utterances, utterances[::-1]):
        with Results(['a', 'b']) as results:
            for utterance in order:
                results.add(*utterance)
            names = [each.transcription.wav_filename for each in results.read(results.worst_first())]
            confused = most_frequent(results.overall().confusions.substitutions, 3)
            found.append((names, confused, results.overall().bootstrap.wer()))
    assert found[0] == found[1]
    assert found[0][0] == ['0', '2', '4', '6', '1', '3', '5', '7']
    assert found[0][1] == [(('one', 'a'), 2), (('one', 'b'), 2), (('one', 'c'), 2)]


def test_names_that_are_no_utf_8_come_back() -> None:
    with Results(['a']) as results:
        results.add(0, 0, of('\udcff.wav', 'müde', 'muede'))
        (found,) = results.read([0])
    assert (found.transcription.wav_filename, found.transcription.src) == ('\udcff.wav', 'müde')


def test_memory_does_not_grow_with_the_texts() -> None:
    """2,000 utterances of 2 kB are 4 MB."""
    long = 'word ' * 200
    with Results(['a']) as results:
        results.add(0, 0, of('x', long, long))
        tracemalloc.start()
        for line in range(1, 2000):
            results.add(0, line, of(f'{line}.wav', long, long))
        grown, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert grown < 200_000
        assert len(results) == 2000


def test_rare_confusions_are_forgotten_when_there_are_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confusions, 'MOST_KEPT', 10)
    counted = Confusions()
    for number in range(100):
        counted.add(align_words(['often', f'said{number}', 'gone'], ['oven', f'heard{number}']))
        assert len(counted.substitutions) <= 20
    assert counted.substitutions['often', 'oven'] == 100
    assert counted.deletions == {'gone': 100}
