"""The random choices of the phrasebook: a seeded stream of numbers, the same on every machine and Python version."""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class Weighted(Generic[_Item]):
    """Items with the weights they are drawn by."""

    def __init__(self, *weighted: tuple[_Item, float]) -> None:
        self.items = [item for item, _ in weighted]
        self.bounds = list(accumulate(weight for _, weight in weighted))


class Dice:
    """Draws from one seeded stream. Only `Random.random` is used: Python promises that its sequence never changes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random() < probability

    def pick(self, items: Sequence[_Item]) -> _Item:
        """One of the items, all equally likely."""
        return items[int(self._random() * len(items))]

    def draw(self, weighted: Weighted[_Item]) -> _Item:
        """One of the items by weight."""
        return weighted.items[bisect(weighted.bounds, self._random() * weighted.bounds[-1], hi=len(weighted.items) - 1)]
