"""Memory of attention heads: those of a position lie side by side, as projections leave them."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


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


def is_head_contiguous(x: Float[Tensor, "B H T K"]) -> bool:
    """Tell whether entries, heads and batches follow each other as in a dense (B, T, at least H x K)."""
    batch, head, row, entry = x.stride()
    return entry == 1 and (head == x.shape[3] or x.shape[1] == 1) and (batch == x.shape[2] * row or x.shape[0] == 1)
