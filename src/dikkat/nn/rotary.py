"""Rotary positions: queries and keys are turned by an angle that grows with their position."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dikkat.kernels.rotary import Rotation
from dikkat.nn.positions import with_length
from dikkat_runtime.engine import position_tables as tables


def rotary_frequencies(head_dim: int, base: float = 10000.0) -> list[float]:
    """Return the radians `base^(-2j/K)` a position by which each pair turns."""
    return [math.exp(-math.log(base) * exponent / head_dim) for exponent in range(0, head_dim, 2)]


def rotations(length: int, head_dim: int, frequencies: Sequence[float] | None = None) -> Float[Tensor, "2 T half"]:
    """Cosine and sine of the angles of positions 0 ... length-1; computed in float64, returned in float32."""
    return torch.from_numpy(tables.rotations(length, head_dim, frequencies)).float()


class RotaryPositions(nn.Module):
    """Turns each pair (2j, 2j+1) of a head by its position times its frequency (Su et al. 2021, section 3.2.2).

    The product of a turned query and a turned key depends on the distance between them only. The table grows with the
    longest sequence seen. A pair of frequency 0 is never turned. Raises `ValueError` for an odd head width, and for
    heads of another width.
    """

    table: Tensor

    def __init__(self, head_dim: int, initial_length: int = 256, frequencies: Sequence[float] | None = None) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"rotary positions need an even head_dim, but head_dim is {head_dim}")
        self.head_dim = head_dim
        self.frequencies = frequencies
        self.register_buffer("table", rotations(initial_length, head_dim, frequencies), persistent=False)

    def forward(
        self, x: Float[Tensor, "B H T K"], offset: int = 0, position_ids: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B H T K"]:
        """`x` turned as the positions `offset ... offset+T-1`: at step t of decoding the offset is the cache length.

        With `position_ids`, as those positions instead.
        """
        return self.rotation(x, offset, position_ids)(x)

    def rotation(
        self, x: Float[Tensor, "B H T K"], offset: int = 0, position_ids: Int[Tensor, "B T"] | None = None
    ) -> Rotation:
        """Return the rotation that `forward` applies to `x`, for tensors of its length and width."""
        if x.shape[-1] != self.head_dim:
            raise ValueError(f"rotary positions of head_dim = {self.head_dim} cannot turn heads of width {x.shape[-1]}")
        return Rotation(self._table(x.shape[2], offset, position_ids), position_ids)

    def _table(self, length: int, offset: int, position_ids: Tensor | None) -> Tensor:
        """Its rows for those positions; with `position_ids`, all of it."""
        end = offset + length if position_ids is None else int(position_ids.max()) + 1
        self.table = with_length(self.table, 1, end, lambda length: rotations(length, self.head_dim, self.frequencies))
        return self.table[:, offset:end] if position_ids is None else self.table
