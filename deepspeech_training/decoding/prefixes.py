"""The texts that a search has in view, as a tree: a node is the text on the way to it from the root."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]

ROOT = 0


class PrefixTree:
    """Nodes have a parent, the label that leads to them, and what a scorer knows of them."""

    def __init__(self, labels: int, start: int) -> None:
        """`labels`: their number. `start`: the state of the lexicon at the root."""
        self._labels = labels
        self._start = start
        self._count = 1
        self._parents = np.full(1, -1, np.int64)
        self._last = np.full(1, -1, np.int64)  # label
        self.states = np.full(1, start, np.int64)  # of the lexicon
        self.contexts = np.zeros(1, np.int64)  # of the language model, when the last unit ended
        self.unit_scores = np.full(1, np.nan)  # see `units`; nan: not asked for yet
        self._keys: Ids = np.zeros(0, np.int64)  # sorted: parent and label of each node but the root
        self._nodes: Ids = np.zeros(0, np.int64)  # in the order of these

    @property
    def count(self) -> int:
        return self._count

    def parents(self, nodes: Ids) -> Ids:
        return self._parents[nodes]

    def last_labels(self, nodes: Ids) -> Ids:
        """The labels that lead to `nodes`; -1 for the root."""
        return self._last[nodes]

    def children(self, nodes: Ids, labels: Ids) -> Ids:
        """The nodes that `labels` lead to from `nodes`; -1 where there is none yet."""
        if not len(self._keys):
            return np.full(len(nodes), -1, np.int64)
        keys = nodes * self._labels + labels
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[places] == keys, self._nodes[places], -1)

    def add(self, parents: Ids, labels: Ids, states: Ids) -> Ids:
        """New nodes, which must not be there yet."""
        nodes = np.arange(self._count, self._count + len(parents))
        self._count += len(parents)
        if self._count > len(self._parents):
            self._grow(2 * self._count)
        self._parents[nodes], self._last[nodes], self.states[nodes] = parents, labels, states
        self.contexts[nodes] = self.contexts[parents]
        keys = parents * self._labels + labels
        order = np.argsort(keys)
        places = np.searchsorted(self._keys, keys[order])
        self._keys = np.insert(self._keys, places, keys[order])
        self._nodes = np.insert(self._nodes, places, nodes[order])
        return nodes

    def labels(self, node: int) -> list[int]:
        """Those that lead to `node`."""
        labels: list[int] = []
        while node != ROOT:
            labels.append(int(self._last[node]))
            node = int(self._parents[node])
        return labels[::-1]

    def unit(self, node: int) -> list[int]:
        """The labels that lead to `node` since the lexicon was at its start: of a unit that has not ended."""
        labels: list[int] = []
        while self.states[node] != self._start:
            labels.append(int(self._last[node]))
            node = int(self._parents[node])
        return labels[::-1]

    def keep(self, nodes: Ids) -> Ids:
        """Forgets all nodes that do not lead to `nodes`; returns the new numbers of these."""
        used = np.zeros(self._count, bool)
        used[ROOT] = True
        reached = nodes
        while len(reached):
            reached = np.unique(reached[~used[reached]])
            used[reached] = True
            reached = self._parents[reached]
        numbers = np.cumsum(used) - 1
        kept = np.flatnonzero(used)
        parents = self._parents[kept]
        self._parents = np.where(parents >= 0, numbers[parents], -1)
        self._last, self.states = self._last[kept], self.states[kept]
        self.contexts, self.unit_scores = self.contexts[kept], self.unit_scores[kept]
        self._count = len(kept)
        keys = (self._parents * self._labels + self._last)[1:]
        order = np.argsort(keys)
        self._keys, self._nodes = keys[order], order + 1
        return numbers[nodes]

    def _grow(self, capacity: int) -> None:
        more = capacity - len(self._parents)
        self._parents = np.concatenate([self._parents, np.full(more, -1, np.int64)])
        self._last = np.concatenate([self._last, np.full(more, -1, np.int64)])
        self.states = np.concatenate([self.states, np.zeros(more, np.int64)])
        self.contexts = np.concatenate([self.contexts, np.zeros(more, np.int64)])
        self.unit_scores = np.concatenate([self.unit_scores, np.full(more, np.nan)])
