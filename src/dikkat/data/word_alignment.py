"""Learn from pairs of sentences which words translate which: IBM model 1 in both directions (Brown et al. 1993).

The prior is that of fast_align (Dyer, Chahuneau and Smith 2013): words stand at like positions of both sentences. Two
words are linked where each is the likelier translation of the other than any word next to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ids = NDArray[np.int64]

MAX_WORDS = 40
"""Words of a side; longer sentences are left out."""
MAX_CELLS = 1_000_000
"""Pairs of words that are looked at, so that memory stays bounded."""
ROUNDS = 4
NEAR = 2.0
"""Strength of the prior: minus the logarithm of what a whole length away costs."""
MIN_PROBABILITY = 0.1
"""Geometric mean of the two probabilities of translation from which on words are linked."""


class WordAligner:
    """Links words of a source with those of its translation."""

    def __init__(
        self, sources: dict[str, int], targets: dict[str, int], keys: Ids, scores: Array, shares: Array
    ) -> None:
        """`scores` are those of the pairs of words with the sorted `keys`: `source * len(targets) + target`.

        `shares` are those of the sentences that hold each source word.
        """
        self._sources, self._targets, self._keys, self._scores, self._shares = sources, targets, keys, scores, shares

    @classmethod
    def fit(cls, pairs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> WordAligner:
        """Learn from the words of sources and targets."""
        sources: dict[str, int] = {}
        targets: dict[str, int] = {}
        rows, columns, priors = list[Ids](), list[Ids](), list[Array]()
        row_tokens, column_tokens = list[Ids](), list[Ids]()
        sizes, cells = [0, 0], 0
        held = list[int]()
        for source, target in pairs:
            if not 0 < len(source) <= MAX_WORDS or not 0 < len(target) <= MAX_WORDS:
                continue
            own = np.array([sources.setdefault(word, len(sources)) for word in source])
            other = np.array([targets.setdefault(word, len(targets)) for word in target])
            held += set(own.tolist())
            rows.append(np.repeat(own, len(other)))
            columns.append(np.tile(other, len(own)))
            row_tokens.append(sizes[0] + np.repeat(np.arange(len(own)), len(other)))
            column_tokens.append(sizes[1] + np.tile(np.arange(len(other)), len(own)))
            priors.append(_prior(len(own), len(other)).reshape(-1))
            sizes = [sizes[0] + len(own), sizes[1] + len(other)]
            cells += len(own) * len(other)
            if cells > MAX_CELLS:
                break
        if not rows:
            return cls({}, {}, np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
        keys, pair_of_cell = np.unique(
            np.concatenate(rows) * len(targets) + np.concatenate(columns), return_inverse=True
        )
        prior = np.concatenate(priors)
        forward = _probabilities(keys // len(targets), pair_of_cell, np.concatenate(column_tokens), prior)
        backward = _probabilities(keys % len(targets), pair_of_cell, np.concatenate(row_tokens), prior)
        return cls(sources, targets, keys, np.sqrt(forward * backward), np.bincount(held) / len(rows))

    @property
    def scores(self) -> dict[tuple[str, str], float]:
        """The geometric mean of both probabilities of each pair of words that stand in one pair of sentences."""
        sources, targets = list(self._sources), list(self._targets)
        return {
            (sources[key // len(targets)], targets[key % len(targets)]): score
            for key, score in zip(self._keys.tolist(), self._scores.tolist(), strict=True)
        }

    def share(self, source: str) -> float:
        """Return the share of the sources that hold a word."""
        number = self._sources.get(source)
        return 0.0 if number is None else float(self._shares[number])

    def links(self, source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
        """Return the linked words of a pair, by their numbers in the source and in the target, in order."""
        if not source or not target or not len(self._keys):
            return []
        own = np.array([self._sources.get(word, -1) for word in source])[:, None]
        other = np.array([self._targets.get(word, -1) for word in target])
        wanted = own * len(self._targets) + other
        numbers = np.searchsorted(self._keys, wanted).clip(0, len(self._keys) - 1)
        known = (self._keys[numbers] == wanted) & (own >= 0) & (other >= 0)
        scores = np.where(known, self._scores[numbers], 0.0)
        near = scores * _prior(len(source), len(target))
        best = (near == near.max(axis=0)) & (near == near.max(axis=1, keepdims=True)) & (scores >= MIN_PROBABILITY)
        return [(int(row), int(column)) for row, column in np.argwhere(best)]


def _prior(rows: int, columns: int) -> Array:
    """Return how likely positions are linked, (rows, columns), but for a factor."""
    away = (np.arange(rows)[:, None] + 0.5) / rows - (np.arange(columns) + 0.5) / columns
    prior: Array = np.exp(-NEAR * np.abs(away))
    return prior


def _probabilities(conditions: Ids, pair_of_cell: Ids, tokens: Ids, prior: Array) -> Array:
    """Return the probability of each pair of words, of whose words the one in `conditions` is known.

    A cell is one word of a source and one of its target; `pair_of_cell` is the number of its pair of words, and
    `tokens` that of the occurrence which it explains.
    """
    probability = np.ones(len(conditions))
    for _ in range(ROUNDS):
        weights = probability[pair_of_cell] * prior
        weights /= np.bincount(tokens, weights)[tokens]
        counts = np.bincount(pair_of_cell, weights, len(conditions))
        probability = counts / np.bincount(conditions, counts)[conditions]
    return probability
