"""CTC prefix beam search, with or without a scorer, by the rules of DeepSpeech's decoder.

The search is that of Graves 2012 (section 7.5) and Hannun et al. 2014: texts are extended frame by frame, the
probabilities of all paths to the same text are added up, and the best of the texts are kept. A scorer forbids words
it does not know, and scores each word when a space ends it, the last one at the end (in models of bytes: characters).

All texts of the beam are extended at once with NumPy. Most extensions need not be looked at: when the beam is full,
the texts that it has already are as many as it can hold, so what would be worse than the worst of them is left out
at once. That changes no result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from deepspeech_training.decoding.prefixes import ROOT, Ids, PrefixTree
from deepspeech_training.decoding.scorer import Scorer
from deepspeech_training.decoding.units import Floats, units_of

NEVER = -np.inf

TINY = float(np.finfo(np.float32).tiny)  # added to probabilities, as DeepSpeech's decoder does

NODES_PER_TEXT = 16  # kept in the tree for each text of the beam, before those without use are removed


@dataclass(frozen=True)
class Beam:
    """The texts in view. A text's probability is that of all paths to it; half of them end in a blank."""

    nodes: Ids  # [texts]
    ending_in_blank: Floats  # [texts], log-probabilities, as all below
    ending_in_label: Floats
    totals: Floats


@dataclass(frozen=True)
class Found:
    """A text as labels, and the logarithm of its probability, with the scorer's part of it."""

    labels: list[int]
    score: float


@dataclass(frozen=True)
class SearchOptions:
    """`width`: texts in view. Of each frame, only the most likely labels are looked at: `cutoff_top_n` of them, or as
    many as together have the probability `cutoff_prob`; and always the blank, so that no text becomes impossible.
    """

    width: int = 500
    cutoff_prob: float = 1.0
    cutoff_top_n: int = 300


def prefix_beam_search(
    logits: npt.NDArray[np.floating[Any]], options: SearchOptions, scorer: Scorer | None = None, count: int = 1
) -> list[Found]:
    """The `count` best texts for `logits` `[frames, labels + 1]`, normalised or not, the blank last; best first."""
    search = _Search(logits.shape[1] - 1, options, scorer)
    for frame in log_softmax(logits):
        search.step(_cut(frame, options))
    return search.best(count)


def log_softmax(logits: npt.NDArray[np.floating[Any]]) -> Floats:
    """Log-probabilities of each row."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    return np.log(exponentials / exponentials.sum(axis=1, keepdims=True) + TINY)


def _cut(frame: Floats, options: SearchOptions) -> Floats:
    """`frame` without the labels that the options leave out."""
    if options.cutoff_prob >= 1 and options.cutoff_top_n >= len(frame):
        return frame
    order = np.argsort(-frame, kind='stable')
    enough = len(frame)
    if options.cutoff_prob < 1:
        enough = int(np.searchsorted(np.cumsum(np.exp(frame[order])), options.cutoff_prob)) + 1
    kept = np.append(order[: min(enough, options.cutoff_top_n)], len(frame) - 1)
    cut = np.full(len(frame), NEVER)
    cut[kept] = frame[kept]
    return cut


@dataclass(frozen=True)
class _Extensions:
    """Texts of the beam with one more label."""

    rows: Ids  # [extensions], positions in the beam
    labels: Ids
    scores: Floats
    states: Ids  # of the lexicon

    def __getitem__(self, chosen: Any) -> _Extensions:
        return _Extensions(self.rows[chosen], self.labels[chosen], self.scores[chosen], self.states[chosen])


class _Search:
    """One utterance."""

    def __init__(self, labels: int, options: SearchOptions, scorer: Scorer | None) -> None:
        self._blank = labels
        self._width = options.width
        self._scorer = scorer
        self._tree = PrefixTree(labels, scorer.lexicon.start if scorer else 0)
        self._units = units_of(scorer, self._tree) if scorer else None
        self._largest_bonus = scorer.largest_bonus if scorer else 0.0
        self._beam = Beam(np.array([ROOT]), np.zeros(1), np.full(1, NEVER), np.zeros(1))

    def step(self, frame: Floats) -> None:
        """Takes in the log-probabilities `[labels + 1]` of the next frame."""
        beam, tree = self._beam, self._tree
        last = tree.last_labels(beam.nodes)
        in_blank = beam.totals + frame[self._blank]
        full = len(beam.nodes) >= self._width
        cutoff = self._cutoff(frame) if full and self._scorer is not None else NEVER
        goes_on = (last >= 0) & (beam.totals + frame[last] >= cutoff)
        in_label = beam.ending_in_label + np.where(goes_on, frame[last], NEVER)
        in_label = np.logaddexp(in_label, self._from_parents(frame, last, cutoff))
        totals = np.logaddexp(in_blank, in_label)
        new = self._extend(frame, last, cutoff, float(totals.min()) if full else NEVER)
        children = tree.children(beam.nodes[new.rows], new.labels)
        unknown = self._places(children) < 0  # the others have had their share
        new, children = new[unknown], children[unknown]
        best = _largest(np.concatenate([totals, new.scores]), self._width)
        old, chosen = best[best < len(totals)], best[best >= len(totals)] - len(totals)
        nodes = self._nodes(new[chosen], children[chosen])
        self._beam = Beam(
            np.concatenate([beam.nodes[old], nodes]),
            np.concatenate([in_blank[old], np.full(len(chosen), NEVER)]),
            np.concatenate([in_label[old], new.scores[chosen]]),
            np.concatenate([totals[old], new.scores[chosen]]),
        )
        if tree.count > NODES_PER_TEXT * self._width + 1000:
            beam = self._beam
            kept = tree.keep(beam.nodes)
            self._beam = Beam(kept, beam.ending_in_blank, beam.ending_in_label, beam.totals)

    def best(self, count: int) -> list[Found]:
        """The best texts of the beam, with the score of the last word."""
        scores = self._beam.totals.copy()
        if self._units is not None:
            scores += [self._units.at_end(node) for node in self._beam.nodes.tolist()]
        order = np.argsort(-scores, kind='stable')[:count]
        return [Found(self._tree.labels(int(self._beam.nodes[place])), float(scores[place])) for place in order]

    def _cutoff(self, frame: Floats) -> float:
        """Which extensions DeepSpeech's decoder leaves out when it has a scorer.

        Those of less probability (without the scorer's part) than the least text of the beam has with a blank, and
        without the reward for a word. It leaves out the shares of texts that it has already, too: they count for less
        than they are. That makes a difference, so it is done here, for the same results.
        """
        assert self._scorer is not None
        return float(self._beam.totals.min()) + float(frame[self._blank]) - max(0.0, self._scorer.beta)

    def _from_parents(self, frame: Floats, last: Ids, cutoff: float) -> Floats:
        """What texts get from the text without their last label, `last`, where that is in the beam too."""
        beam = self._beam
        parents = self._tree.parents(beam.nodes)
        places = self._places(parents)
        scores = np.where(last[places] == last, beam.ending_in_blank[places], beam.totals[places]) + frame[last]
        if self._units is not None:
            scores += self._units.shares(beam.nodes, parents)
        return np.where((places >= 0) & (beam.totals[places] + frame[last] >= cutoff), scores, NEVER)

    def _extend(self, frame: Floats, last: Ids, cutoff: float, worst: float) -> _Extensions:
        """All extensions that may be better than `worst` and are not left out by `cutoff`."""
        beam = self._beam
        bound = worst - self._largest_bonus
        labels = np.flatnonzero(frame[:-1] + beam.totals.max() > max(bound, np.nextafter(cutoff, NEVER)))
        scores = beam.totals[:, np.newaxis] + frame[labels]
        possible = scores >= cutoff
        rows, columns = np.nonzero(last[:, np.newaxis] == labels)
        scores[rows, columns] = beam.ending_in_blank[rows] + frame[labels[columns]]  # else the label just goes on
        rows, columns = np.nonzero(possible & (scores > bound))
        found = _Extensions(rows, labels[columns], scores[rows, columns], np.zeros(len(rows), np.int64))
        return found if self._scorer is None else self._score(found, self._scorer)

    def _score(self, found: _Extensions, scorer: Scorer) -> _Extensions:
        """Those that the lexicon allows, with the score of the words that end."""
        assert self._units is not None
        nodes = self._beam.nodes[found.rows]
        states = scorer.lexicon.follow(self._tree.states[nodes], found.labels)
        found = _Extensions(found.rows, found.labels, found.scores, states)[states >= 0]
        scores = self._units.scores(self._beam.nodes[found.rows], found.labels, found.states)
        return replace(found, scores=found.scores + scores)

    def _places(self, nodes: Ids) -> Ids:
        """Where `nodes` are in the beam; -1: they are not."""
        order = np.argsort(self._beam.nodes)
        by_number = self._beam.nodes[order]
        places = np.minimum(np.searchsorted(by_number, nodes), len(by_number) - 1)
        return np.where(by_number[places] == nodes, order[places], -1)

    def _nodes(self, new: _Extensions, children: Ids) -> Ids:
        """The nodes of extensions, made where the tree does not have them."""
        missing = children < 0
        parents = self._beam.nodes[new.rows[missing]]
        labels = new.labels[missing]
        nodes = children.copy()
        nodes[missing] = self._tree.add(parents, labels, new.states[missing])
        if self._units is not None:
            self._units.enter(nodes[missing], parents, labels)
        return nodes


def _largest(values: Floats, count: int) -> Ids:
    """Positions of the `count` largest `values` that are possible at all."""
    possible = np.flatnonzero(values > NEVER)
    if len(possible) <= count:
        return possible if len(possible) else np.arange(1)
    return possible[np.argpartition(-values[possible], count - 1)[:count]]
