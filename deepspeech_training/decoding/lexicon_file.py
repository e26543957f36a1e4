"""Writes the lexicon of a `.scorer`: the smallest automaton of its words, in OpenFst's `const` format.

The labels of a word are followed by the space, and that by the one final state; those of a character of a model of
bytes by the final state. `scorer_file` reads what is written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import numpy as np

from deepspeech_training.decoding.scorer_file import (
    FST_ALIGNED_VERSION,
    FST_ALIGNMENT,
    FST_ARC,
    FST_MAGIC,
    FST_NUMBERS,
    FST_STATE,
    Automaton,
)

ALIGNED = 4  # flag: states and arcs begin at multiples of `FST_ALIGNMENT`

# OpenFst's names for what is true of an automaton; it finds labels by bisection where they are said to be sorted.
EXPANDED = 1 << 0
ACCEPTOR = 1 << 16
DETERMINISTIC = 1 << 18 | 1 << 20  # by input, by output
WITHOUT_EPSILONS = 1 << 23 | 1 << 25 | 1 << 27  # in both, by input, by output
SORTED_LABELS = 1 << 28 | 1 << 30  # by input, by output
UNWEIGHTED = 1 << 33
ACYCLIC = 1 << 35 | 1 << 37  # nowhere, not at the start
TOP_SORTED, NOT_TOP_SORTED = 1 << 38, 1 << 39
ACCESSIBLE = 1 << 40 | 1 << 42  # from the start, to the end
STRING, NOT_STRING = 1 << 44, 1 << 45
UNWEIGHTED_CYCLES = 1 << 47
ALWAYS = (
    *(EXPANDED, ACCEPTOR, DETERMINISTIC, WITHOUT_EPSILONS, SORTED_LABELS, UNWEIGHTED, ACYCLIC, ACCESSIBLE),
    UNWEIGHTED_CYCLES,
)

Arcs = dict[int, int]
"""Of one state: the next state for each label."""


def minimal_automaton(words: Iterable[Sequence[int]], space: int | None) -> Automaton:
    """The smallest deterministic automaton of `words` (in labels, none empty), each with `space`, if any, behind it.

    Built word by word in sorted order: Daciuk, Mihov, Watson and Watson, "Incremental Construction of Minimal Acyclic
    Finite-State Automata" (2000), algorithm 1. Raises `ValueError` where there are no words, or an empty one.
    """
    states: list[Arcs] = [{}]
    register: dict[tuple[tuple[int, int], ...], int] = {}
    path: list[tuple[int, int]] = []  # of the last word: states that may still change, and the labels that leave them
    before: tuple[int, ...] = ()
    behind = () if space is None else (space,)
    for word in sorted({(*word, *behind) for word in words}):
        if len(word) == len(behind):
            raise ValueError('a word without labels')
        common = next((n for n, (a, b) in enumerate(zip(before, word, strict=False)) if a != b), len(before))
        _share(states, register, path, common)
        state = states[path[-1][0]][path[-1][1]] if path else 0
        for label in word[common:]:
            states.append({})
            states[state][label] = len(states) - 1
            path.append((state, label))
            state = len(states) - 1
        before = word
    if not before:
        raise ValueError('no words')
    _share(states, register, path, 0)
    return _numbered(states)


def _share(
    states: list[Arcs], register: dict[tuple[tuple[int, int], ...], int], path: list[tuple[int, int]], keep: int
) -> None:
    """Replaces the states behind the first `keep` labels of `path` by those that already have the same arcs."""
    while len(path) > keep:
        state, label = path.pop()
        target = states[state][label]
        states[state][label] = register.setdefault(tuple(states[target].items()), target)


def _numbered(states: list[Arcs]) -> Automaton:
    """What can be reached from state 0, breadth first, labels ascending."""
    numbers = {0: 0}
    queue = [0]
    rows: list[tuple[int, int, int]] = []
    for state in queue:
        for label, target in sorted(states[state].items()):
            if target not in numbers:
                numbers[target] = len(queue)
                queue.append(target)
            rows.append((numbers[state], label, numbers[target]))
    table = np.array(rows, np.int64)
    final = np.array([not states[state] for state in queue])
    return Automaton(0, table[:, 0], table[:, 1], table[:, 2], final)


def automaton_bytes(automaton: Automaton, place: int) -> bytes:
    """The automaton as it is written at `place` of a file. Its arcs are sorted by state and label."""
    count = np.bincount(automaton.sources, minlength=len(automaton.final))
    states = np.zeros(len(automaton.final), FST_STATE)
    states['final'] = np.where(automaton.final, 0.0, np.inf)  # as costs
    states['first'] = np.cumsum(count) - count
    states['arcs'] = count
    arcs = np.zeros(len(automaton.labels), FST_ARC)
    arcs['label'] = arcs['output'] = automaton.labels + 1  # 0 means no label there
    arcs['target'] = automaton.targets
    result = struct.pack('<I', FST_MAGIC)
    result += b''.join(struct.pack('<i', len(kind)) + kind for kind in (b'const', b'standard'))
    result += FST_NUMBERS.pack(
        FST_ALIGNED_VERSION, ALIGNED, _properties(automaton), automaton.start, len(states), len(arcs)
    )
    for table in (states, arcs):
        result += bytes(-(place + len(result)) % FST_ALIGNMENT) + table.tobytes()
    return result


def _properties(automaton: Automaton) -> int:
    ascending = bool((automaton.targets > automaton.sources).all())
    single = len(automaton.labels) == len(automaton.final) - 1 and bool((np.diff(automaton.sources) > 0).all())
    return sum(ALWAYS) | (TOP_SORTED if ascending else NOT_TOP_SORTED) | (STRING if single else NOT_STRING)
