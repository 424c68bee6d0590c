"""Attention over long sequences a block of queries at a time, so that only the weights of one block are in memory."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.utils.checkpoint import checkpoint

BLOCK_WEIGHTS = 512 * 512
"""Weights (T x S) of each head, at most, that are in memory together and wait there for the backward pass."""


def fits(query: Float[Tensor, "B H T K"], key: Float[Tensor, "B H S K"]) -> bool:
    """Tell whether the weights of all queries may be in memory together."""
    return query.shape[-2] * key.shape[-2] <= BLOCK_WEIGHTS


def in_query_blocks(
    attend: Callable[..., Tensor],
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    *by_query: Shaped[Tensor, "..."] | None,
    recomputes: bool,
) -> Float[Tensor, "B H T E"]:
    """Join `attend(query, *by_query)` over as many queries at a time as fit.

    The tensors `by_query` are broadcastable to (B, H, T, S). A block that `recomputes` is computed again on the way
    back, instead of keeping its weights.
    """
    outputs = []
    for first in range(0, query.shape[-2], rows := max(1, BLOCK_WEIGHTS // key.shape[-2])):
        block = slice(first, first + rows)
        parts = query[..., block, :], *(slice_axis(tensor, -2, block) for tensor in by_query)
        outputs.append(checkpoint(attend, *parts, use_reentrant=False) if recomputes else attend(*parts))
    return torch.cat(outputs, dim=-2)


def slice_axis(tensor: Tensor | None, axis: int, part: slice) -> Tensor | None:
    """Slice a (negative) axis of what is broadcastable to (B, H, T, S); an axis of one entry, or none, stays."""
    if tensor is None or tensor.dim() < -axis or tensor.shape[axis] == 1:
        return tensor
    first, end, _ = part.indices(tensor.shape[axis])
    return tensor.narrow(axis, first, end - first)
