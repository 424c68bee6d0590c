"""Keys and values that decoding has already computed: the whole contract of search is `append`, `reorder`, `drop`."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

# Caches of decoding whose buffers never move, so that a recorded sequence of GPU operations can be played again.
#
# The position is a number on the device, not in Python: a step does the same operations at every position.


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

    def copy_rows(self, other: "StaticCache", index: Int[Tensor, "R"], length: int) -> None:
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

    def copy_rows(self, other: "StaticState", index: Int[Tensor, "R"], length: int) -> None:
        """Take the states of these rows of another cache."""
        torch.index_select(other._state, 0, index, out=self._state)

    def clear(self) -> None:
        self._state.zero_()


class SelfAttentionCache:
    """Keys and values of the target so far, one row a hypothesis, in buffers that double when full."""

    def __init__(self) -> None:
        self.length = 0
        self._key: Tensor | None = None
        self._value: Tensor | None = None

    def append(
        self, key: Float[Tensor, "R H T K"], value: Float[Tensor, "R H T E"]
    ) -> tuple[Float[Tensor, "R H S K"], Float[Tensor, "R H S E"]]:
        """Add the newest positions and return all of them, without gradient: a cache serves decoding only."""
        key, value = key.detach(), value.detach()
        end = self.length + key.shape[2]
        self._key = self._grow(self._key, key, end)
        self._value = self._grow(self._value, value, end)
        self._key[:, :, self.length : end] = key
        self._value[:, :, self.length : end] = value
        self.length = end
        return self._key[:, :, :end], self._value[:, :, :end]

    def newest(self) -> Float[Tensor, "R H 1 K"]:
        """Return the keys of the newest position. Raises `ValueError` where there is none."""
        if self._key is None or self.length == 0:
            raise ValueError("an empty cache has no newest position")
        return self._key[:, :, self.length - 1 : self.length]

    def reorder(self, index: Int[Tensor, "R2"]) -> None:
        """Let row r continue what row `index[r]` had; a shorter index drops rows."""
        if self._key is not None and self._value is not None:
            # only the part in use is gathered; the copy is as long as the buffer was, so appending stays in place
            self._key = self._gather(self._key, index)
            self._value = self._gather(self._value, index)

    def _gather(self, buffer: Tensor, index: Tensor) -> Tensor:
        reordered = buffer.new_empty(index.shape[0], *buffer.shape[1:])
        torch.index_select(buffer[:, :, : self.length], 0, index, out=reordered[:, :, : self.length])
        return reordered

    def _grow(self, buffer: Tensor | None, new: Tensor, end: int) -> Tensor:
        if buffer is not None and buffer.shape[2] >= end:
            return buffer
        rows, heads, _, width = new.shape
        grown = new.new_empty(rows, heads, max(16, 2 * end), width)
        if buffer is not None:
            grown[:, :, : self.length] = buffer[:, :, : self.length]
        return grown


@dataclass(slots=True)
class CrossAttentionCache:
    """Keys and values of the source, projected once per sentence and shared by its hypotheses."""

    key: Float[Tensor, "B H S K"]
    value: Float[Tensor, "B H S E"]


class StackCache:
    """All that a stack of self-attention blocks remembers of R rows."""

    def __init__(self, num_layers: int) -> None:
        self.layers = [SelfAttentionCache() for _ in range(num_layers)]

    @property
    def length(self) -> int:
        """Number of positions held, which is the position of the next token."""
        return self.layers[0].length

    def reorder(self, index: Int[Tensor, "R2"]) -> None:
        """Let row r continue what row `index[r]` had; a shorter index drops rows."""
        for layer in self.layers:
            layer.reorder(index)

    def keep(self, rows: list[int]) -> None:
        if (keys := self.layers[0]._key) is not None:
            self.reorder(torch.tensor(rows, dtype=torch.int64, device=keys.device))


class DecoderCache(StackCache):
    """The cache of a decoder, of `B` sentences with `rows_per_sentence` hypotheses each.

    The index of `reorder` never crosses sentences.
    """

    def __init__(
        self, cross: list[CrossAttentionCache], mask: Bool[Tensor, "B 1 1 S"], rows_per_sentence: int = 1
    ) -> None:
        super().__init__(len(cross))
        self.cross_attention = cross
        self.mask = mask
        self.rows_per_sentence = rows_per_sentence

    def drop(self, keep: Int[Tensor, "B2"]) -> None:
        """Keep only the sentences numbered in `keep`, in that order."""
        offsets = torch.arange(self.rows_per_sentence, device=keep.device)
        # (B2, 1) + (1, rows) -> (B2 * rows)
        self.reorder((keep[:, None] * self.rows_per_sentence + offsets).reshape(-1))
        for layer in self.cross_attention:
            layer.key, layer.value = layer.key.index_select(0, keep), layer.value.index_select(0, keep)
        self.mask = self.mask.index_select(0, keep)
