"""Several projections computed as one: split on the way forward, and not put together on the way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from dikkat.kernels.calls import needs_backward, runs_native
from dikkat.kernels.gpu.choice import runs_triton


def split_widths(x: Float[Tensor, "B T E"], widths: Sequence[int]) -> tuple[Float[Tensor, "B T _"], ...]:
    """Split the last dimension of `x` into views of these widths, which add up to E.

    Gradients that are views of one `adjacent` buffer, as those of our attention, become the gradient of `x` as they
    are; others are copied together.
    """
    if not (needs_backward(x) and (runs_triton(x) or runs_native(x))):
        return x.split(list(widths), dim=-1)
    parts: tuple[Tensor, ...] = _Split.apply(x, list(widths))
    return parts


class _Split(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, widths: list[int]) -> tuple[Tensor, ...]:
        return x.split(widths, dim=-1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        whole = None if torch.is_grad_enabled() else _common_buffer(gradients)
        return torch.cat(gradients, dim=-1) if whole is None else whole, None


def _common_buffer(parts: Sequence[Tensor]) -> Tensor | None:
    """Return the tensor (B, T, E) that `parts` are, one after the other in its last dimension, or None."""
    buffer, width = parts[0]._base, sum(part.shape[-1] for part in parts)
    if buffer is None or buffer.shape != (*parts[0].shape[:-1], width) or not buffer.is_contiguous():
        return None
    first = 0
    for part in parts:
        if part._base is not buffer or part.storage_offset() != first or part.stride() != buffer.stride():
            return None
        first += part.shape[-1]
    return buffer
