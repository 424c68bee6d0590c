"""Rotary positions: queries and keys are turned by an angle that grows with their position."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor, nn

from dikkat.native import kernels


def rotations(length: int, head_dim: int, base: float = 10000.0) -> Float[Tensor, "2 T half"]:
    """Cosine and sine of `i * base^(-2j/K)` for positions 0 ... length-1; computed in float64, returned in float32."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    # (T, 1) x (K/2,) -> (T, K/2)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * torch.exp(-math.log(base) * exponents)
    return torch.stack((angles.cos(), angles.sin())).float()


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
        if x.shape[-1] != self.head_dim:
            raise ValueError(f"rotary positions of head_dim = {self.head_dim} cannot turn heads of width {x.shape[-1]}")
        table = self._table(x.shape[2], offset, places)
        if kernels.runs_natively(x) and table.dtype == torch.float32:
            found: Tensor = _Turned.apply(x, table, places, x.shape[1], False)
            return found
        return _turned(x, table, places)

    def turn_first(
        self, x: Float[Tensor, "B T E"], heads: int, offset: int = 0, places: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T E"]:
        """Heads that stand one behind the other: the first `heads` of them turned as by `forward`, the rest as it is.

        So queries, keys and values that were projected as one stay together, and so do their gradients.
        """
        apart = x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        table = self._table(x.shape[1], offset, places)
        if kernels.runs_natively(x) and table.dtype == torch.float32:
            found: Tensor = _Turned.apply(apart, table, places, heads, False)
            return found.transpose(1, 2).flatten(2)
        first = _turned(apart[:, :heads], table, places).transpose(1, 2).flatten(2)
        return torch.cat((first, x[..., heads * self.head_dim :]), dim=-1)

    def _table(self, length: int, offset: int, places: Tensor | None) -> Tensor:
        """Its rows for those positions; with `places`, all of it."""
        end = offset + length if places is None else int(places.max()) + 1
        if end > self.table.shape[1]:
            grown = rotations(2 * end, self.head_dim)
            self.table = grown.to(device=self.table.device, dtype=self.table.dtype)
        return self.table[:, offset:end] if places is None else self.table


class _Turned(torch.autograd.Function):
    """The gradient of a rotation is the rotation back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor, places: Tensor | None, heads: int, back: bool) -> Tensor:
        ctx.save_for_backward(table, places)
        ctx.heads, ctx.back = heads, back
        return kernels.turned(x, table, places, heads, back=back)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        table, places = ctx.saved_tensors
        return _Turned.apply(gradient, table, places, ctx.heads, not ctx.back), None, None, None, None


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
