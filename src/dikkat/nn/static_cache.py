"""Caches of decoding whose buffers never move, so that a recorded sequence of GPU operations can be played again.

The position is a number on the device, not in Python: a step does the same operations at every position.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


class StaticCache:
    """Keys and values of R rows, in two pairs of buffers of C positions (C, R, G, K) each, of which one is in use.

    `reorder` copies from one pair to the other: after an even number of steps the first one is in use again.
    """

    def __init__(self, capacity: int, rows: int, heads: int, width: int, like: Tensor) -> None:
        """`like` has the type and the device of the buffers."""
        self._buffers = [like.new_zeros(2, capacity, rows, heads, width) for _ in range(2)]
        self._current = 0

    @property
    def current(self) -> Float[Tensor, "2 C R G K"]:
        """Keys and values in use."""
        return self._buffers[self._current]

    def reorder(self, index: Int[Tensor, "R"], length: int) -> None:
        """Let row r continue what row `index[r]` had, in the first `length` positions."""
        source, target = self.current, self._buffers[1 - self._current]
        for pair in range(2):
            torch.index_select(source[pair, :length], 1, index, out=target[pair, :length])
        self._current = 1 - self._current

    def append(
        self, key: Float[Tensor, "R G 1 K"], value: Float[Tensor, "R G 1 K"], position: Int[Tensor, "1"]
    ) -> None:
        """Write keys and values at `position`."""
        # (R, G, 1, K) -> (1, R, G, K)
        self.current[0].index_copy_(0, position, key.squeeze(2).unsqueeze(0))
        self.current[1].index_copy_(0, position, value.squeeze(2).unsqueeze(0))

    def first(self, length: int) -> tuple[Float[Tensor, "R G L K"], Float[Tensor, "R G L K"]]:
        """Return keys and values of the first `length` positions."""
        key, value = self.current[:, :length].permute(0, 2, 3, 1, 4)
        return key, value

    def clear(self) -> None:
        """Begin anew, with zeros: what is hidden by a mask must at least be a number."""
        self._current = 0
        self.current.zero_()

    def copy_rows(self, other: StaticCache, index: Int[Tensor, "R"], length: int) -> None:
        """Take the first `length` positions of these rows of another cache."""
        self.clear()
        for pair in range(2):
            torch.index_select(other.current[pair, :length], 1, index, out=self.current[pair, :length])


class StaticState:
    """The state of a recurrent unit for R rows, (R, 1, 1, D): what `SSRU.step` asks of a cache."""

    length = 1
    """It is never empty: before the first token the state is zero."""

    def __init__(self, rows: int, width: int, like: Tensor) -> None:
        self._state = like.new_zeros(rows, 1, 1, width)

    def newest(self) -> Float[Tensor, "R 1 1 D"]:
        """Return the state after the last token."""
        return self._state

    def append(self, key: Float[Tensor, "R 1 1 D"], value: Float[Tensor, "R 1 1 none"]) -> None:
        """Replace the state by `key`."""
        self._state.copy_(key)

    def reorder(self, index: Int[Tensor, "R"], length: int) -> None:
        """Let row r continue what row `index[r]` had."""
        self._state.copy_(self._state.index_select(0, index))

    def copy_rows(self, other: StaticState, index: Int[Tensor, "R"], length: int) -> None:
        """Take the states of these rows of another cache."""
        torch.index_select(other._state, 0, index, out=self._state)

    def clear(self) -> None:
        """Begin anew."""
        self._state.zero_()
