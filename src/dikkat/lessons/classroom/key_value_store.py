"""A key-value store: a recipe book that is searched by how alike its titles are to what is asked (lecture 12-3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from dikkat.nn import attention

Content = TypeVar("Content")


class Retrieved(NamedTuple, Generic[Content]):
    """One entry of the store, and its share of the attention."""

    share: float
    title: str
    content: Content


class KeyValueStore(Generic[Content]):
    """A store whose keys are titles and whose values are what they stand for.

    A text is compared with the titles by its pairs of letters.

    Raises `ValueError` without an entry.
    """

    def __init__(self, entries: Mapping[str, Content]) -> None:
        if not entries:
            raise ValueError("a store needs at least one entry")
        self.entries = dict(entries)
        pairs = sorted({pair for title in entries for pair in letter_pairs(title)})
        self._columns = {pair: column for column, pair in enumerate(pairs)}
        self.keys = torch.stack([self.vector(title) for title in entries])
        """(t, d): a row of unit length for each title."""

    def vector(self, text: str) -> Tensor:
        """Count how often each known pair of letters is in `text` (d,), scaled to unit length; zeros where none is."""
        row = torch.zeros(len(self._columns))
        for pair, count in letter_pairs(text).items():
            if pair in self._columns:
                row[self._columns[pair]] = count
        return row / row.norm().clamp_min(1e-9)

    def search(self, query: str, beta: float = 5.0) -> list[Retrieved[Content]]:
        """Return every entry by soft argmax, the one most like `query` first; the shares sum to one."""
        return sorted(self._retrieved(query, beta, hard=False), key=lambda retrieved: -retrieved.share)

    def get(self, query: str) -> Content:
        """Return the content of the entry whose title is most like `query` (argmax), the first of equals."""
        return next(retrieved.content for retrieved in self._retrieved(query, 1.0, hard=True) if retrieved.share)

    def _retrieved(self, query: str, beta: float, *, hard: bool) -> list[Retrieved[Content]]:
        # the values only have to be mixed in theory: of recipes, each is kept whole
        _, weights = attention(self.vector(query)[None], self.keys, self.keys, score="dot", beta=beta, hard=hard)
        return [Retrieved(float(share), *entry) for share, entry in zip(weights[0], self.entries.items(), strict=True)]


def letter_pairs(text: str) -> Counter[str]:
    """Pairs of neighbouring letters in the words of `text`, with a space before and after each word."""
    words = [f" {word} " for word in text.lower().split()]
    return Counter(word[at : at + 2] for word in words for at in range(len(word) - 1))
