"""Rotary positions: queries and keys are turned by an angle that grows with their position."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor, nn

from dikkat.native import kernels
from dikkat.nn.growing_table import with_length


def rotations(length: int, head_dim: int, base: float = 10000.0) -> Float[Tensor, "2 T half"]:
    """Cosine and sine of `i * base^(-2j/K)` for positions 0 ... length-1; computed in float64, returned in float32."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    # (T, 1) x (K/2,) -> (T, K/2)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * torch.exp(-math.log(base) * exponents)
    return torch.stack((angles.cos(), angles.sin())).float()


class Rotation(NamedTuple):
    """Turns heads whose positions it knows; attention can do the same to queries and keys where it reads them."""

    table: Float[Tensor, "2 L half"]
    """Cosines and sines."""
    places: Int[Tensor, "B T"] | None
    """Rows of the table; None: the first T."""

    def __call__(self, x: Float[Tensor, "B H T K"]) -> Float[Tensor, "B H T K"]:
        """`x` turned."""
        if not self.runs_natively(x):
            return _turned(x, self.table, self.places)
        found: Tensor = _Turned.apply(x, self.table, self.places, False)
        return found

    def check(self, query: Tensor, key: Tensor) -> None:
        """Raises `ValueError` where it does not know the positions of query and key, which must have as many."""
        known = self.table.shape[1] if self.places is None else self.places.shape[1]
        if not query.shape[2] == key.shape[2] == known:
            raise ValueError(
                f"a rotation of {known} positions cannot turn {query.shape[2]} queries and {key.shape[2]} keys"
            )

    def runs_natively(self, *heads: Float[Tensor, "B H T K"]) -> bool:
        """Whether there is a kernel for the table and all of these."""
        return self.table.dtype == torch.float32 and kernels.runs_natively(*heads)


class RotaryPositions(nn.Module):
    """Turns each pair (2j, 2j+1) of a head by its position times its frequency (Su et al. 2021, section 3.2.2).

    The product of a turned query and a turned key depends on the distance between them only. The table grows with the
    longest sequence seen. Raises `ValueError` for an odd head width, and for heads of another width.
    """

    table: Tensor

    def __init__(self, head_dim: int, initial_length: int = 256) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"rotary positions need an even head_dim, but head_dim is {head_dim}")
        self.head_dim = head_dim
        self.register_buffer("table", rotations(initial_length, head_dim), persistent=False)

    def forward(
        self, x: Float[Tensor, "B H T K"], offset: int = 0, places: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B H T K"]:
        """`x` turned as the positions `offset ... offset+T-1`: at step t of decoding the offset is the cache length.

        With `places`, as those positions instead.
        """
        return self.rotation(x, offset, places)(x)

    def rotation(
        self, x: Float[Tensor, "B H T K"], offset: int = 0, places: Int[Tensor, "B T"] | None = None
    ) -> Rotation:
        """What turns `x`, and whatever else has its length and width, as `forward` does."""
        if x.shape[-1] != self.head_dim:
            raise ValueError(f"rotary positions of head_dim = {self.head_dim} cannot turn heads of width {x.shape[-1]}")
        return Rotation(self._table(x.shape[2], offset, places), places)

    def _table(self, length: int, offset: int, places: Tensor | None) -> Tensor:
        """Its rows for those positions; with `places`, all of it."""
        end = offset + length if places is None else int(places.max()) + 1
        self.table = with_length(self.table, 1, end, lambda length: rotations(length, self.head_dim))
        return self.table[:, offset:end] if places is None else self.table


def both_turned(
    rotation: Rotation | None, query: Float[Tensor, "B H T K"], key: Float[Tensor, "B G S K"]
) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B G S K"]]:
    """Query and key turned, of which there are as many positions; without a rotation, as they are."""
    return (query, key) if rotation is None else (rotation(query), rotation(key))


class _Turned(torch.autograd.Function):
    """The gradient of a rotation is the rotation back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor, places: Tensor | None, back: bool) -> Tensor:
        ctx.save_for_backward(table, places)
        ctx.back = back
        return kernels.turned(x, table, places, back=back)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        table, places = ctx.saved_tensors
        return _Turned.apply(gradient, table, places, not ctx.back), None, None, None


def _turned(x: Tensor, table: Tensor, places: Tensor | None) -> Tensor:
    # (2, T, K/2), or (2, B, 1, T, K/2)
    cosine, sine = table if places is None else table[:, places].unsqueeze(2)
    dtype = torch.promote_types(x.dtype, torch.float32)
    # as a complex number each pair takes one product, and one pass over memory
    turned = _as_complex(x.to(dtype)) * torch.complex(cosine.to(dtype), sine.to(dtype))
    # (B, H, T, K/2) -> (B, H, T, K/2, 2) -> (B, H, T, K)
    return torch.view_as_real(turned).flatten(-2).to(x.dtype)


def _as_complex(x: Float[Tensor, "B H T K"]) -> Complex[Tensor, "B H T half"]:
    pairs = x.unflatten(-1, (-1, 2))
    steps = (pairs.storage_offset(), *pairs.stride()[:-1])
    as_it_lies = pairs.stride(-1) == 1 and all(step % 2 == 0 for step in steps)
    return torch.view_as_complex(pairs if as_it_lies else pairs.contiguous())
