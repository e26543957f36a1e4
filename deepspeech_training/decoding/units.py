"""What a scorer adds to the texts of a search: for each word, or in models of bytes, for each character.

Which it is, is in the lexicon: a unit of the language model ends where the lexicon is at its start again.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from deepspeech_training.decoding.prefixes import ROOT, Ids, PrefixTree
from deepspeech_training.decoding.scorer import UNKNOWN, Scorer

Floats = npt.NDArray[np.float64]


class Units(Protocol):
    """The units of the texts of one tree."""

    def scores(self, nodes: Ids, labels: Ids, states: Ids) -> Floats:
        """What units add that end when `nodes` go on with `labels`, to `states` of the lexicon; 0 where none ends."""

    def shares(self, nodes: Ids, parents: Ids) -> Floats:
        """The same for `nodes` that are in the tree, whose parents are `parents`."""

    def enter(self, nodes: Ids, parents: Ids, labels: Ids) -> None:
        """Takes up `nodes` that are new in the tree, behind `parents` with `labels`."""

    def at_end(self, node: int) -> float:
        """What the end of the utterance adds."""


def units_of(scorer: Scorer, tree: PrefixTree) -> Units:
    """Those that `scorer` scores."""
    return Characters(scorer, tree) if scorer.space is None else Words(scorer, tree, scorer.space)


class Words:
    """A space ends a word, and is no part of it. The score of the word that a space would end is kept in its node."""

    def __init__(self, scorer: Scorer, tree: PrefixTree, space: int) -> None:
        self._tree, self._space = tree, space
        self._scoring = scorer.begin()

    def scores(self, nodes: Ids, labels: Ids, states: Ids) -> Floats:
        """See `Units`."""
        scores = np.zeros(len(nodes))
        kept = self._tree.unit_scores
        for place in np.flatnonzero(labels == self._space).tolist():
            node = int(nodes[place])
            if np.isnan(kept[node]):
                kept[node] = self._scoring.score(int(self._tree.contexts[node]), tuple(self._tree.unit(node)))
            scores[place] = kept[node]
        return scores

    def shares(self, nodes: Ids, parents: Ids) -> Floats:
        """See `Units`."""
        return np.where(self._tree.last_labels(nodes) == self._space, self._tree.unit_scores[parents], 0.0)

    def enter(self, nodes: Ids, parents: Ids, labels: Ids) -> None:
        """See `Units`."""
        for place in np.flatnonzero(labels == self._space).tolist():
            parent = int(parents[place])
            context = int(self._tree.contexts[parent])
            after = self._scoring.context_after(context, tuple(self._tree.unit(parent)))
            self._tree.contexts[nodes[place]] = after

    def at_end(self, node: int) -> float:
        """See `Units`. Nothing behind a space, and where there is no text."""
        word = tuple(self._tree.unit(node))
        return self._scoring.score(int(self._tree.contexts[node]), word, boosted=False) if word else 0.0


class Characters:
    """The last byte of a character ends it. What it added is kept in its node.

    Many texts end alike: what the language model says is asked for once for each context, state and label.
    """

    def __init__(self, scorer: Scorer, tree: PrefixTree) -> None:
        self._scorer, self._tree = scorer, tree
        self._scoring = scorer.begin()
        self._known: dict[int, float] = {}

    def scores(self, nodes: Ids, labels: Ids, states: Ids) -> Floats:
        """See `Units`."""
        scores = np.zeros(len(nodes))
        ending = np.flatnonzero(states == self._scorer.lexicon.start)
        nodes, labels = nodes[ending], labels[ending]
        before = self._tree.contexts[nodes] * self._scorer.lexicon.states + self._tree.states[nodes]
        keys, first, places = np.unique(
            before * self._scorer.lexicon.n_labels + labels, return_index=True, return_inverse=True
        )
        values = [
            self._score(key, int(nodes[place]), int(labels[place]))
            for key, place in zip(keys.tolist(), first.tolist(), strict=True)
        ]
        scores[ending] = np.array(values)[places] if values else 0.0
        return scores

    def shares(self, nodes: Ids, parents: Ids) -> Floats:
        """See `Units`."""
        return self._tree.unit_scores[nodes]

    def enter(self, nodes: Ids, parents: Ids, labels: Ids) -> None:
        """See `Units`."""
        states = self._tree.states[nodes]
        self._tree.unit_scores[nodes] = self.scores(parents, labels, states)
        for place in np.flatnonzero(states == self._scorer.lexicon.start).tolist():
            parent = int(parents[place])
            character = (*self._tree.unit(parent), int(labels[place]))
            after = self._scoring.context_after(int(self._tree.contexts[parent]), character)
            self._tree.contexts[nodes[place]] = after

    def at_end(self, node: int) -> float:
        """See `Units`. Half a character is an unknown one; and no text has a reward, as in DeepSpeech's decoder."""
        if node == ROOT:
            return self._scorer.beta
        return UNKNOWN * self._scorer.alpha + self._scorer.beta if self._tree.unit(node) else 0.0

    def _score(self, key: int, node: int, label: int) -> float:
        score = self._known.get(key)
        if score is None:
            character = (*self._tree.unit(node), label)
            score = self._known[key] = self._scoring.score(int(self._tree.contexts[node]), character)
        return score
