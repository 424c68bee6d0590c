"""Sliding-window attention: every query sees its neighbourhood only, in time and memory linear in the length."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from dikkat.kernels.calls import needs_backward
from dikkat.kernels.query_blocks import slice_axis
from dikkat.nn.checks import check_mask, check_positions, check_real, check_sequences, check_sizes
from dikkat.nn.functional import fused_attention, inverse_temperature
from dikkat.nn.masks import causal_mask, key_mask, window_mask

MIN_BLOCK_SIZE = 64
LONG = 512
"""Up to so many positions one call over all pairs is as fast."""

Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Of query (B, H, T, K), key (B, H, S, K), value (B, H, S, E) and mask, to (B, H, T, E)."""


def sliding_window_attention(
    query: Float[Tensor, "B H S K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S E"],
    window: int,
    *,
    real: Bool[Tensor, "B S"] | None = None,
    causal: bool = False,
    beta: float | None = None,
) -> Float[Tensor, "B H S E"]:
    """Scaled dot self-attention to keys at most `window` positions away (Beltagy et al. 2020, section 3.1).

    Equal within 1e-5 in float32 to exact attention under `window_mask`. Against attention to all keys its error is at
    most `2 m max|v|`, where m is the weight that exact attention puts outside the window. `real` is True at tokens that
    may be attended to. Raises `ValueError` for a negative window, for sequences that do not belong together or are of
    two lengths, and for a `real` that does not fit, and `TypeError` for one that is not boolean.
    """
    length = query.shape[-2]
    if window < 0:
        raise ValueError(f"window must be at least 0, not {window}")
    check_sequences(query, key, value)
    if key.shape[-2] != length:
        raise ValueError(f"key must have the {length} positions of the query, but has {key.shape[-2]}")
    if real is not None:
        check_real(real, query.shape[0], length)
    seen, mask = Window(window, causal=causal), None if real is None else key_mask(real)
    if length <= 2 * window:
        # blocks would be filled up with more than they leave out
        return fused_attention(query, key, value, seen.mask(query, key, mask), beta=beta)
    return seen.in_blocks(partial(fused_attention, beta=beta), query, key, value, mask)


@dataclass(frozen=True, slots=True)
class Window:
    """The reach of the tokens of one sequence: so many positions either way, or back alone where it is `causal`.

    The first `global_tokens` see and are seen by all others.
    """

    size: int
    global_tokens: int = 0
    causal: bool = False

    def mask(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Bool[Tensor, "..."]:
        """The `mask` and this; the queries are the last of the keys' sequence. Raises as `fused_attention` does."""
        check_positions(query, key)
        lengths, device = (query.shape[2], key.shape[2]), query.device
        near = window_mask(*lengths, window=self.size, global_tokens=self.global_tokens, device=device)
        if self.causal:
            near = near & causal_mask(*lengths, device=device)
        if mask is None:
            return near
        check_mask(mask, (*query.shape[:-1], key.shape[2]))
        return mask & near

    def saves(self, query: Tensor, key: Tensor) -> bool:
        """Return whether `attend` leaves out enough pairs to be faster than a mask over all of them."""
        targets, sources = query.shape[2], key.shape[2]
        if self.global_tokens or targets > sources:
            return False
        return sources - targets > self.size if targets < sources else sources > max(LONG, 4 * self.size)

    def attend(self, attend: Attend, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """`attend` to what the window reaches alone; the queries are the last ones of the keys' sequence."""
        if mask is not None:
            check_mask(mask, (*query.shape[:-1], key.shape[2]))
        if query.shape[2] == key.shape[2]:
            return self.in_blocks(attend, query, key, value, mask)
        reached = slice(key.shape[2] - query.shape[2] - self.size, None)
        key, value, mask = key[:, :, reached], value[:, :, reached], slice_axis(mask, -1, reached)
        return attend(query, key, value, self.mask(query, key, mask))

    def in_blocks(self, attend: Attend, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """All blocks of queries, each with the keys near it, as the rows of one batch."""
        batch, length, past = query.shape[0], query.shape[2], self.size
        ahead = 0 if self.causal else past
        # a block of queries sees itself and a window on either side, so smaller blocks would mostly see the same keys
        size = max(past, MIN_BLOCK_SIZE)
        allowed = _allowed_near(mask, query, size, past, ahead)
        output = attend(_near(query, size), _near(key, size, past, ahead), _near(value, size, past, ahead), allowed)
        # (B * blocks, H, size, E) -> (B, H, blocks * size, E)
        return output.unflatten(0, (batch, -1)).transpose(1, 2).flatten(2, 3)[..., :length, :]


def _near(x: Shaped[Tensor, "B H S K"], size: int, past: int = 0, ahead: int = 0) -> Shaped[Tensor, "B2 H near K"]:
    """Of each block of `size` positions itself and what is near it, zeros beyond the ends; blocks follow their row.

    Copied from two or three shifts of the whole, so that the gradient is linear as well: that of a slice for each block
    would be as long as the sequence, every time.
    """
    blocks = -(-x.shape[2] // size)
    padded = F.pad(x, (0, 0, size, (blocks + 1) * size - x.shape[2])).unflatten(2, (blocks + 2, size))
    before, own, after = padded[:, :, :-2], padded[:, :, 1:-1], padded[:, :, 2:]
    near = torch.cat((before[..., size - past :, :], own, after[..., :ahead, :]), dim=3)
    # (B, H, blocks, near, K) -> (B * blocks, H, near, K)
    return near.transpose(1, 2).flatten(0, 1)


def _allowed_near(
    mask: Tensor | None, query: Tensor, size: int, past: int, ahead: int
) -> Bool[Tensor, "B2 H size near"]:
    """What of the `mask` lies near each block, in the window and in the sequence."""
    batch, length, device = query.shape[0], query.shape[2], query.device
    mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device) if mask is None else mask
    mask = mask.expand(*mask.shape[-4:-2], length, length)[(None,) * (4 - max(2, mask.dim()))]
    blocks = -(-length // size)
    near = mask.new_zeros(*mask.shape[:2], blocks, size, past + size + ahead)
    for block, first in enumerate(range(0, length, size)):
        low, end, high = max(0, first - past), min(first + size, length), min(first + size + ahead, length)
        shift = past - first
        near[:, :, block, : end - first, low + shift : high + shift] = mask[:, :, first:end, low:high]
    away = torch.arange(-past, size + ahead, device=device) - torch.arange(size, device=device)[:, None]
    near &= (away >= -past) & (away <= ahead)
    # (B or 1, H or 1, blocks, size, near) -> (B * blocks, H or 1, size, near)
    return near.expand(batch, *near.shape[1:]).transpose(1, 2).flatten(0, 1)


# Exact attention whose memory does not grow with the number of pairs: softmax over one chunk of keys after another.


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
