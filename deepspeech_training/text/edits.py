"""Which words were heard for which: the shortest way from what was said to what was recognised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

EQUAL, SUBSTITUTION, DELETION, INSERTION = 'equal', 'substitution', 'deletion', 'insertion'

_KINDS = {'equal': EQUAL, 'replace': SUBSTITUTION, 'delete': DELETION, 'insert': INSERTION}


class Edit(NamedTuple):
    """A word and what was heard for it; `said` is '' for an insertion, `heard` for a deletion."""

    kind: str
    said: str
    heard: str


def align_words(said: Sequence[str], heard: Sequence[str]) -> list[Edit]:
    """The words of both in order, with as few edits as there can be (Levenshtein)."""
    edits = []
    for block in Levenshtein.opcodes(said, heard):
        kind = _KINDS[block.tag]
        before = said[block.src_start : block.src_end]
        after = heard[block.dest_start : block.dest_end]
        for place in range(max(len(before), len(after))):  # of the same length, or one is empty
            edits.append(Edit(kind, before[place] if before else '', after[place] if after else ''))
    return edits


def count_edits(said: Sequence[str], heard: Sequence[str]) -> tuple[int, int, int]:
    """Substitutions, deletions and insertions of `align_words`."""
    tags = [edit.tag for edit in Levenshtein.editops(said, heard)]
    return tags.count('replace'), tags.count('delete'), tags.count('insert')
