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


def adjacent(*tensors: Tensor) -> list[Tensor]:
    """Return memory for tensors (B, H, T, K) of one length: views of one dense buffer (B, T, sum of H x K)."""
    batch, _, length, _ = tensors[0].shape
    step = sum(tensor.shape[1] * tensor.shape[3] for tensor in tensors)
    buffer, first, views = tensors[0].new_empty(batch, length, step), 0, []
    for tensor in tensors:
        # strides by name: other ways to make the view leave those of a single position to chance
        views.append(buffer.as_strided(tensor.shape, (length * step, tensor.shape[3], step, 1), first))
        first += tensor.shape[1] * tensor.shape[3]
    return views


def lies_by_heads(x: Float[Tensor, "B H T K"]) -> bool:
    """Tell whether entries, heads and batches follow each other as in a dense (B, T, at least H x K)."""
    batch, head, row, entry = x.stride()
    return entry == 1 and (head == x.shape[3] or x.shape[1] == 1) and (batch == x.shape[2] * row or x.shape[0] == 1)


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
