"""Boolean masks, `True` = may attend, broadcastable to (B, H, T, S)."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def causal_mask(
    target_length: int, source_length: int | None = None, *, device: torch.device | str | None = None
) -> Bool[Tensor, "1 1 T S"]:
    """Return the mask by which a query sees keys up to its own position; fewer queries are the last ones.

    Raises `ValueError` if there are no queries, or fewer keys than queries.
    """
    source_length = target_length if source_length is None else source_length
    _check_lengths(target_length, source_length)
    ones = torch.ones(target_length, source_length, dtype=torch.bool, device=device)
    return ones.tril(source_length - target_length)[None, None]


def length_mask(lengths: Int[Tensor, "B"], size: int) -> Bool[Tensor, "B S"]:
    """Return True at the first `lengths[b]` of `size` positions."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def key_mask(real: Bool[Tensor, "B S"]) -> Bool[Tensor, "B 1 1 S"]:
    """Return a mask over keys, the same for every head and query."""
    return real[:, None, None, :]


def valid_length_mask(lengths: Int[Tensor, "..."], size: int) -> Bool[Tensor, "B 1 #T S"]:
    """Return the mask of keys within a valid length, one (B,) for all queries of a row or one (B, T) for each query.

    A length of 0 is a query that may attend to nothing, and gets zeros. Raises `ValueError` for lengths of other
    dimensions, and for a length outside 0 ... `size`.
    """
    if lengths.dim() not in (1, 2):
        raise ValueError(f"lengths must have 1 or 2 dimensions (B,) or (B, T), but has {lengths.dim()}")
    outside = lengths[(lengths < 0) | (lengths > size)]
    if outside.numel():
        raise ValueError(f"lengths must lie between 0 and size = {size}, but one is {int(outside[0])}")
    # (B,) -> (B, 1); then (B, T or 1) -> (B, 1, T or 1, 1)
    rows = lengths if lengths.dim() == 2 else lengths[:, None]
    return torch.arange(size, device=lengths.device) < rows[:, None, :, None]


def distances(
    target_length: int, source_length: int, *, device: torch.device | str | None = None
) -> Int[Tensor, "T S"]:
    """Return position of the key minus position of the query; fewer queries than keys are the last ones.

    Raises `ValueError` if there are no queries, or fewer keys than queries.
    """
    _check_lengths(target_length, source_length)
    keys = torch.arange(source_length, device=device)
    return keys - keys[source_length - target_length :, None]


def window_mask(
    target_length: int,
    source_length: int | None = None,
    *,
    window: int,
    global_tokens: int = 0,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "1 1 T S"]:
    """Return the mask by which queries see keys at most `window` positions away, and the first `global_tokens` all.

    The local + global pattern of Beltagy et al. (2020, section 3.1); with more keys than queries the queries are the
    last ones. Combine with `&`. Raises `ValueError` if `window` or `global_tokens` is negative, if there are no
    queries, or fewer keys than queries.
    """
    for name, value in (("window", window), ("global_tokens", global_tokens)):
        if value < 0:
            raise ValueError(f"{name} must be at least 0, not {value}")
    source_length = target_length if source_length is None else source_length
    away = distances(target_length, source_length, device=device)
    mask = away.abs() <= window
    if global_tokens:
        keys = torch.arange(source_length, device=device)
        mask |= (keys < global_tokens) | (keys[source_length - target_length :, None] < global_tokens)
    return mask[None, None]


def _check_lengths(target_length: int, source_length: int) -> None:
    if target_length < 1:
        raise ValueError(f"target_length must be at least 1, not {target_length}")
    if source_length < target_length:
        raise ValueError(f"source_length must be at least target_length = {target_length}, not {source_length}")
