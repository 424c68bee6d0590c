"""Boolean masks, `True` = may attend, broadcastable to (B, H, T, S)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def causal_mask(
    target_length: int, source_length: int | None = None, *, device: torch.device | str | None = None
) -> Bool[Tensor, "1 1 T S"]:
    """Query t sees keys up to its own position; with more keys than queries the queries are the last ones.

    Raises `ValueError` if there are fewer keys than queries.
    """
    source_length = target_length if source_length is None else source_length
    if source_length < target_length:
        raise ValueError(f"a causal mask needs as many keys as queries, but {source_length} < {target_length}")
    ones = torch.ones(target_length, source_length, dtype=torch.bool, device=device)
    return ones.tril(source_length - target_length)[None, None]


def padding_mask(tokens: Int[Tensor, "B S"], pad_id: int = 0) -> Bool[Tensor, "B S"]:
    """True where a token is real."""
    return tokens != pad_id


def length_mask(lengths: Int[Tensor, "B"], size: int) -> Bool[Tensor, "B S"]:
    """True at the first `lengths[b]` of `size` positions."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def key_mask(real: Bool[Tensor, "B S"]) -> Bool[Tensor, "B 1 1 S"]:
    """A mask over keys, the same for every head and query."""
    return real[:, None, None, :]
