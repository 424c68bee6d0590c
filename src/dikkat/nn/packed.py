"""Several projections that are computed as one: cut apart on the way forward, and not put together on the way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


def split_widths(x: Float[Tensor, "B T E"], widths: Sequence[int]) -> tuple[Float[Tensor, "B T _"], ...]:
    """Views of `x` of these widths, which add up to E, one behind the other.

    Gradients that lie in memory as `x` does, as those that native attention writes, become the gradient of `x` as they
    are; others are copied together.
    """
    if not (x.requires_grad and torch.is_grad_enabled()):
        return x.split(list(widths), dim=-1)
    parts: tuple[Tensor, ...] = _Split.apply(x, list(widths))
    return parts


class _Split(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, widths: list[int]) -> tuple[Tensor, ...]:
        return x.split(widths, dim=-1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        whole = None if torch.is_grad_enabled() else _undivided(gradients)
        return torch.cat(gradients, dim=-1) if whole is None else whole, None


def _undivided(parts: Sequence[Tensor]) -> Tensor | None:
    """The dense tensor that `parts` are all of, one behind the other in the last dimension; None if there is none."""
    first, width = parts[0], sum(part.shape[-1] for part in parts)
    strides = (first.shape[1] * width, width, 1)
    place = first.storage_offset()
    for part in parts:
        same = part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr() and part.dtype == first.dtype
        if not same or part.stride() != strides or part.storage_offset() != place:
            return None
        place += part.shape[-1]
    return first.as_strided((*first.shape[:-1], width), strides)
