"""Which texts are made of known words, as an automaton over labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


class Lexicon:
    """From a state, a label leads to another or nowhere, and the last label of a word, its space, to the start again.

    The words of models of bytes are characters, whose last byte leads to the start.
    """

    def __init__(self, sources: Ids, labels: Ids, targets: Ids, start: int, n_labels: int) -> None:
        """Arcs of a deterministic automaton: `labels[i]` leads from `sources[i]` to `targets[i]`."""
        keys = sources.astype(np.int64) * n_labels + labels
        order = np.argsort(keys, kind='stable')
        self._keys, self._targets = keys[order], targets.astype(np.int64)[order]
        self.n_labels = n_labels
        self.states = int(max(start, sources.max(initial=0), targets.max(initial=0))) + 1  # their number
        self.start = start

    @property
    def arcs(self) -> int:
        return len(self._keys)

    def follow(self, states: Ids, labels: Ids) -> Ids:
        """The states that `labels` lead to from `states`, -1 for nowhere."""
        if not len(self._keys):
            return np.full(len(states), -1, np.int64)
        keys = states * self.n_labels + labels
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[places] == keys, self._targets[places], -1)

    @classmethod
    def of_words(cls, words: Iterable[Sequence[int]], space: int | None, n_labels: int) -> Lexicon:
        """A trie of `words`, each a sequence of labels. Empty ones are left out.

        Without a `space` behind them none may be the beginning of another.
        """
        arcs: dict[tuple[int, int], int] = {}
        states = 1
        for word in words:
            state = 0
            inner, last = (word, space) if space is not None else (word[:-1], word[-1])
            for label in inner:
                target = arcs.get((state, label))
                if target is None:
                    target = arcs[state, label] = states
                    states += 1
                state = target
            if len(word):
                arcs[state, last] = 0
        table = np.array([(source, label, target) for (source, label), target in arcs.items()], np.int64).reshape(-1, 3)
        return cls(table[:, 0], table[:, 1], table[:, 2], 0, n_labels)
