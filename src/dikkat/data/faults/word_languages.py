"""The language of a text by its words, of which each is looked at once: far faster than to look at every text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dikkat.data.language_guess import are_alike, language_scores, languages_known

_FEWEST_LETTERS = 16
MOST_WORDS = 30_000
"""Words that are remembered; those met later say nothing."""
_LEAST_MARGIN = 8.0
"""Logarithm by which another language must be likelier than a text's own."""
_LEAST_SHARE = 0.5
"""Of the words of a text those that must be likelier in the other language."""


class WordLanguages:
    """Tells whether texts of a side are in another language than its own, by scores of their words."""

    def __init__(self, own: str) -> None:
        codes = languages_known()
        self._own = codes.index(own) if own in codes else None
        others = np.array([code != own and not are_alike(code, own) for code in codes])
        self._others = np.where(others, 0.0, -np.inf)
        self._margins: dict[str, float] = {}
        self._scores: dict[str, NDArray[np.float64]] = {}

    def is_foreign(self, words: Sequence[str]) -> bool:
        """Return whether `words` are those of a text in another language."""
        if self._own is None or sum(map(len, words)) < _FEWEST_LETTERS:
            return False
        margins = [self._margin(word) for word in words]
        # no language is likelier in the whole than the likeliest one of each word
        if sum(margins) > -_LEAST_MARGIN:
            return False
        scores = np.sum([self._scores[word] for word in words if word in self._scores], axis=0)
        best = int(np.argmax(scores + self._others))
        if scores[best] - scores[self._own] < _LEAST_MARGIN:
            return False
        known = [self._scores[word] for word in words if word in self._scores]
        likelier = sum(bool(scores[best] > scores[self._own]) for scores in known)
        return likelier >= _LEAST_SHARE * len(words)

    def _margin(self, word: str) -> float:
        """How much likelier a word is in its own language than in the likeliest other one, as a logarithm."""
        margin = self._margins.get(word)
        if margin is None:
            if len(self._scores) >= MOST_WORDS or self._own is None:
                return math.inf
            scores = language_scores(f" {word} ")
            self._scores[word] = scores
            margin = self._margins[word] = float(scores[self._own] - (scores + self._others).max())
        return margin
