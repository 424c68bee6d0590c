"""Groups of texts that have one key, in arrays of numbers: some 30 bytes a text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


class KeyGroups:
    """Hold which texts have a key in common; a group is a number, and the groups are in the order of their keys."""

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        """`keys` (N,) has one a text."""
        self._order = np.argsort(keys, kind="stable")
        ordered = keys[self._order]
        self._starts = np.flatnonzero(np.diff(ordered, prepend=~ordered[:1]))
        self._ends = np.append(self._starts[1:], len(keys))

    def __len__(self) -> int:
        return len(self._starts)

    def size(self, group: int) -> int:
        """Return how many texts a group has."""
        return int(self._ends[group] - self._starts[group])

    def members(self, group: int) -> IntArray:
        """Return the texts of a group, ascending."""
        return self._order[self._starts[group] : self._ends[group]]

    def with_any(self, is_chosen: NDArray[np.bool_]) -> list[int]:
        """Return the groups that have one of the chosen texts (N,), the smallest first, then by their first text."""
        numbers = np.flatnonzero(np.logical_or.reduceat(is_chosen[self._order], self._starts))
        sizes = self._ends[numbers] - self._starts[numbers]
        firsts = self._order[self._starts[numbers]]
        groups: list[int] = numbers[np.lexsort((firsts, sizes))].tolist()
        return groups
