"""Aligned words, against jiwer."""

from __future__ import annotations

import jiwer
from hypothesis import given, settings
from hypothesis import strategies as st

from deepspeech_training.text.edits import DELETION, EQUAL, INSERTION, SUBSTITUTION, Edit, align_words, count_edits

WORDS = st.lists(st.sampled_from(['one', 'two', 'three', 'four']), max_size=8)
SOME_WORDS = st.lists(st.sampled_from(['one', 'two', 'three', 'four']), min_size=1, max_size=8)


def test_each_kind() -> None:
    assert align_words(list('abcdef'), list('axcefg')) == [
        Edit(EQUAL, 'a', 'a'),
        Edit(SUBSTITUTION, 'b', 'x'),
        Edit(EQUAL, 'c', 'c'),
        Edit(DELETION, 'd', ''),
        Edit(EQUAL, 'e', 'e'),
        Edit(EQUAL, 'f', 'f'),
        Edit(INSERTION, '', 'g'),
    ]


def test_nothing() -> None:
    assert align_words([], []) == []
    assert align_words([], ['one']) == [Edit(INSERTION, '', 'one')]
    assert align_words(['one', 'two'], []) == [Edit(DELETION, 'one', ''), Edit(DELETION, 'two', '')]


@settings(deadline=None)
@given(WORDS, WORDS)
def test_both_texts_are_in_it_and_the_counts_are_those_of_its_kinds(said: list[str], heard: list[str]) -> None:
    edits = align_words(said, heard)
    assert [edit.said for edit in edits if edit.kind != INSERTION] == said
    assert [edit.heard for edit in edits if edit.kind != DELETION] == heard
    kinds = [edit.kind for edit in edits]
    assert (kinds.count(SUBSTITUTION), kinds.count(DELETION), kinds.count(INSERTION)) == count_edits(said, heard)


@settings(deadline=None)
@given(SOME_WORDS, WORDS)
def test_counts_are_those_of_jiwer(said: list[str], heard: list[str]) -> None:
    output = jiwer.process_words(' '.join(said), ' '.join(heard))
    assert count_edits(said, heard) == (output.substitutions, output.deletions, output.insertions)
