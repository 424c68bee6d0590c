"""Attention over long sequences a block of queries at a time, so that only the weights of one block are in memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.utils.checkpoint import checkpoint

KEPT_WEIGHTS = 512 * 512
"""So many weights (T x S) of each head may be in memory together, and wait there for the backward pass."""


def fits(query: Float[Tensor, "B H T K"], key: Float[Tensor, "B H S K"]) -> bool:
    """Whether the weights of all queries may be in memory together."""
    return query.shape[-2] * key.shape[-2] <= KEPT_WEIGHTS


def learns(*tensors: Tensor | None) -> bool:
    """Whether there will be a backward pass."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def in_query_blocks(
    attend: Callable[..., Tensor],
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    *by_query: Shaped[Tensor, "..."] | None,
    learning: bool,
) -> Float[Tensor, "B H T E"]:
    """`attend(query, *by_query)` over as many queries at a time as fit, joined; what follows is broadcastable to
    (B, H, T, S). Where it is `learning`, a block is computed again on the way back.
    """
    outputs = []
    for first in range(0, query.shape[-2], rows := max(1, KEPT_WEIGHTS // key.shape[-2])):
        block = slice(first, first + rows)
        given = query[..., block, :], *(part_of(tensor, -2, block) for tensor in by_query)
        outputs.append(checkpoint(attend, *given, use_reentrant=False) if learning else attend(*given))
    return torch.cat(outputs, dim=-2)


def part_of(tensor: Tensor | None, axis: int, part: slice) -> Tensor | None:
    """The entries of `part` on the (negative) axis of what is broadcastable to (B, H, T, S)."""
    if tensor is None or tensor.dim() < -axis or tensor.shape[axis] == 1:
        return tensor
    first, end, _ = part.indices(tensor.shape[axis])
    return tensor.narrow(axis, first, end - first)
