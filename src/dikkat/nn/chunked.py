"""Exact attention whose memory does not grow with the number of pairs: softmax over one chunk of keys after another."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from dikkat.kernels.calls import needs_backward
from dikkat.kernels.query_blocks import slice_axis
from dikkat.nn.checks import check_mask, check_sequences, check_sizes
from dikkat.nn.functional import inverse_temperature

Rows = tuple[Tensor, Tensor, Tensor]


def chunked_attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S E"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    causal: bool = False,
    beta: float | None = None,
    query_chunk: int = 512,
    key_chunk: int = 1024,
) -> Float[Tensor, "B H T E"]:
    """Compute scaled dot attention without ever holding T x S weights, within 1e-5 of `fused_attention` in float32.

    The running maximum and sum of Milakov and Gimelshein (2018), applied to attention by Rabe and Staats (2021). Beside
    inputs and output it needs `query_chunk x key_chunk` numbers for each batch row and head; backwards, where each
    chunk of queries is computed again, `query_chunk x S`. A causal mask comes as `causal=True`, since a full one would
    itself have T x S entries; the queries are the last of the S positions. `mask` is for keys, or small.
    Raises `ValueError` and `TypeError` as `fused_attention` does, and `ValueError` for a chunk below 1.
    """
    targets, sources = query.shape[-2], key.shape[-2]
    check_sizes(query_chunk=query_chunk, key_chunk=key_chunk)
    check_sequences(query, key, value)
    if causal and sources < targets:
        raise ValueError(f"under causal=True key must have the {targets} positions of the query, but has {sources}")
    if mask is not None:
        check_mask(mask, (*query.shape[:-1], sources))
    query = query * inverse_temperature(query, "scaled_dot", beta)
    recomputes = needs_backward(query, key, value)
    parts = []
    for start in range(0, targets, query_chunk):
        rows = slice(start, min(start + query_chunk, targets))
        first = sources - targets + start if causal else None
        arguments: tuple[Any, ...] = (query[..., rows, :], key, value, slice_axis(mask, -2, rows), first, key_chunk)
        parts.append(checkpoint(_rows, *arguments, use_reentrant=False) if recomputes else _rows(*arguments))
    return torch.cat(parts, dim=-2)


def _rows(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, first: int | None, size: int) -> Tensor:
    """Attend to all keys from one chunk of scaled queries; `first` is the position of its first, if it is causal."""
    statistics = torch.promote_types(query.dtype, torch.float32)
    lowest = torch.finfo(statistics).min
    best = query.new_full((*query.shape[:-1], 1), lowest, dtype=statistics)
    total = torch.zeros_like(best)
    weighted = query.new_zeros((*query.shape[:-1], value.shape[-1]), dtype=statistics)
    end = key.shape[-2] if first is None else min(key.shape[-2], first + query.shape[-2])
    for start in range(0, end, size):
        keys = slice(start, min(start + size, end))
        scores = (query @ key[..., keys, :].transpose(-2, -1)).to(statistics)
        allowed = _allowed(slice_axis(mask, -1, keys), first, keys, query)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, lowest)
        # what was summed so far was relative to the old maximum
        higher = torch.maximum(best, scores.amax(dim=-1, keepdim=True)).detach()
        weights, kept = torch.exp(scores - higher), torch.exp(best - higher)
        if allowed is not None:
            weights = weights.masked_fill(~allowed, 0.0)
        total = total * kept + weights.sum(dim=-1, keepdim=True)
        weighted = weighted * kept + (weights.to(value.dtype) @ value[..., keys, :]).to(statistics)
        best = higher
    # a row that may attend to nothing has nothing in either
    return (weighted / total.clamp_min(torch.finfo(statistics).tiny)).to(value.dtype)


def _allowed(mask: Tensor | None, first: int | None, keys: slice, query: Tensor) -> Tensor | None:
    if first is None or keys.stop <= first + 1:
        return mask
    positions = torch.arange(first, first + query.shape[-2], device=query.device)
    past = torch.arange(keys.start, keys.stop, device=query.device) <= positions[:, None]
    return past if mask is None else mask & past
