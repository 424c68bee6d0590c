"""The attention of the words of a translation over those of its source, sentence by sentence."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Span = tuple[int, int]
"""The first character, and the one after the last."""


def word_shares(spans: Sequence[Span], pieces: Sequence[Span]) -> list[list[int]]:
    """Return for each word the pieces (tokens) that have a character in it, both in their order."""
    shares: list[list[int]] = []
    first = 0
    for start, end in spans:
        while first < len(pieces) and pieces[first][1] <= start:
            first += 1
        last = first
        while last < len(pieces) and pieces[last][0] < end:
            last += 1
        shares.append([number for number in range(first, last) if pieces[number][1] > start])
    return shares


Weights = NDArray[np.float32]
_MAX_MATRIX_SIZE, _MAX_ALIGNMENT_SIZE = 1 << 18, 1 << 22
"""Most weights of one sentence, and of all sentences of a text that are aligned by attention."""


class Alignment:
    """The attention of target words over the source: one matrix a sentence, independent of other sentences."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._blocks: list[tuple[int, int, Weights, Weights]] = []
        self._size = 0
        self.is_exact = True
        """Whether every sentence is aligned by attention, and none by the order of its words."""

    def fits(self, num_sources: int, num_targets: int) -> bool:
        """Return whether a sentence of so many words may have a matrix, so that memory stays linear in the text."""
        size = num_sources * num_targets
        return size <= _MAX_MATRIX_SIZE and self._size + size <= _MAX_ALIGNMENT_SIZE

    def add(self, first_source: int, first_target: int, weights: Weights) -> None:
        """Add weights (T, S) of the next sentence, whose first words have these numbers. Rows sum to one or to zero."""
        # (T, S) -> (T, S + 1)
        sums = np.zeros((weights.shape[0], weights.shape[1] + 1), np.float32)
        np.cumsum(weights, axis=1, out=sums[:, 1:])
        self._starts.append(first_source)
        self._blocks.append((first_source, first_target, weights, sums))
        self._size += weights.size

    def _near(self, first: int, last: int) -> list[tuple[int, int, Weights, Weights]]:
        """Return the sentences that hold one of these source words, or are next to them."""
        low = max(0, bisect_left(self._starts, first) - 1)
        return self._blocks[low : bisect_right(self._starts, last)]

    def targets(self, first: int, last: int) -> Span:
        """Return the target words of the sentences that hold these source words, or are next to them."""
        blocks = self._near(first, last)
        return (blocks[0][1], blocks[-1][1] + len(blocks[-1][2])) if blocks else (0, 0)

    def gains(self, first: int, last: int) -> Weights:
        """Return for the `targets` the weight on the source words `first` to `last` minus the weight outside."""
        parts = [np.zeros(0, np.float32)]
        for source, _, _, sums in self._near(first, last):
            start, end = (min(max(word - source, 0), sums.shape[1] - 1) for word in (first, last))
            parts.append(2 * (sums[:, end] - sums[:, start]) - sums[:, -1])
        return np.concatenate(parts)

    def balance(self, border: int) -> Weights:
        """Return for the `targets` the weight before the border of two source words minus the weight after it.

        The nearer a source word is to the border, the more it counts.
        """
        parts = [np.zeros(0, np.float32)]
        for source, _, weights, _ in self._near(border, border):
            distances = np.arange(weights.shape[1]) + source - border
            signs = -1.0 / (distances + (distances >= 0))
            parts.append(weights @ signs.astype(np.float32))
        return np.concatenate(parts)
