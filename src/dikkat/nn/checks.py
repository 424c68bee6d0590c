"""Checks of the arguments of attention; every error names the argument, its limit and its value."""

from collections.abc import Sequence

import torch
from torch import Tensor


def checked_head_dim(model_dim: int, num_heads: int, head_dim: int | None) -> int:
    """Return K: `head_dim` itself or, left out, `model_dim / num_heads`.

    Raises `ValueError` for a size below 1, and for heads that do not divide the width where they have to.
    """
    check_sizes(model_dim=model_dim, num_heads=num_heads, head_dim=head_dim)
    if head_dim is not None:
        return head_dim
    if model_dim % num_heads:
        raise ValueError(
            f"num_heads must divide model_dim, but {num_heads} does not divide {model_dim}; "
            "set head_dim to free the two"
        )
    return model_dim // num_heads


def checked_kv_heads(num_heads: int, num_kv_heads: int | None) -> int:
    """Return the heads of keys and values, by default `num_heads`, which they must divide, else `ValueError`."""
    check_sizes(num_kv_heads=num_kv_heads)
    if num_kv_heads is None:
        return num_heads
    if num_heads % num_kv_heads:
        raise ValueError(f"num_kv_heads must divide num_heads, but {num_kv_heads} does not divide {num_heads}")
    return num_kv_heads


def check_sizes(**sizes: int | None) -> None:
    """Raise `ValueError` for a size below 1; None is a size that was left out."""
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise ValueError(f"{name} must be at least 1, not {size}")


def check_unbatched(name: str, tensor: Tensor | None) -> Tensor | None:
    """Return a batch of the one sequence `tensor`. Raises `ValueError` unless it is (S, D), as the query is."""
    if tensor is not None and tensor.dim() != 2:
        raise ValueError(f"{name} must be one sequence (S, D), as the query is, but has {tensor.dim()} dimensions")
    return None if tensor is None else tensor[None]


def check_width(name: str, tensor: Tensor, width: int) -> None:
    """Raise `ValueError` unless the last dimension of `tensor` has `width` entries."""
    if tensor.shape[-1] != width:
        raise ValueError(f"{name} must have the width {width}, but has {tensor.shape[-1]}")


def check_positions(query: Tensor, key: Tensor) -> None:
    """Raise `ValueError` for sequences of length 0."""
    if query.shape[-2] == 0 or key.shape[-2] == 0:
        raise ValueError(f"query and key must have at least 1 position, but have {query.shape[-2]} and {key.shape[-2]}")


def check_same_width(query: Tensor, key: Tensor) -> None:
    """Raise `ValueError` for a query and a key of two widths, which have no dot product."""
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"query and key must have the same width, but query has {query.shape[-1]} and key has {key.shape[-1]}"
        )


def check_same_length(key: Tensor, value: Tensor) -> None:
    """Raise `ValueError` unless every key has a value."""
    if value.shape[-2] != key.shape[-2]:
        raise ValueError(f"value must have the {key.shape[-2]} positions of the key, but has {value.shape[-2]}")


def check_sequences(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise `ValueError` unless they are (B, H, T, K), (B, H, S, K) and (B, H, S, any), with T and S at least 1."""
    check_positions(query, key)
    check_same_width(query, key)
    check_same_length(key, value)
    for name, tensor in (("key", key), ("value", value)):
        if tensor.shape[:-2] != query.shape[:-2]:
            raise ValueError(
                f"{name} must have the batch and heads {tuple(query.shape[:-2])} of the query, "
                f"but has {tuple(tensor.shape[:-2])}"
            )


def check_mask(mask: Tensor, shape: Sequence[int]) -> None:
    """Check that a mask is boolean and fits `shape` (B, H, T, S) in one way.

    Raises `TypeError` for a mask that is not boolean, `ValueError` for one that is not broadcastable to `shape` or
    could be read in two ways: with as many texts as queries or heads, nothing tells what its rows are.
    """
    # PyTorch's kernel would add a float mask to the scores, and nothing here ever does
    _check_boolean("mask", mask)
    _check_rows(mask, shape)
    check_fits("mask", mask, shape)


def mask_for(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the mask, checked against `scores`; (B, 1, T, S) loses its one head where they are (B, T, S)."""
    if isinstance(mask, Tensor) and scores.dim() == 3 and mask.dim() == 4 and mask.shape[1] == 1:
        mask = mask[:, 0]
    check_mask(mask, scores.shape)
    return mask


def check_real(real: Tensor, batch: int, length: int) -> None:
    """Raise `TypeError` for a `real` that is not boolean, `ValueError` for one that is not (batch, length)."""
    _check_boolean("real", real)
    if tuple(real.shape) != (batch, length):
        raise ValueError(f"real must have the shape {(batch, length)}, but has {tuple(real.shape)}")


def check_fits(name: str, tensor: Tensor, shape: Sequence[int]) -> None:
    """Raise `ValueError` unless `tensor` can be broadcast to `shape` without widening it."""
    fits = all(size in (1, limit) for size, limit in zip(reversed(tensor.shape), reversed(shape), strict=False))
    if tensor.dim() > len(shape) or not fits:
        raise ValueError(
            f"{name} must be broadcastable to the scores {tuple(shape)}, but has the shape {tuple(tensor.shape)}"
        )


def _check_rows(mask: Tensor, shape: Sequence[int]) -> None:
    """Raise `ValueError` for a mask whose first dimension may be that of the texts as well as the one it stands in."""
    missing = len(shape) - mask.dim()
    if len(shape) < 3 or missing < 1 or mask.dim() < 2 or (rows := mask.shape[0]) == 1 or rows != shape[0]:
        return
    texts = f"mask[:, {'None, ' * missing}...]" if missing < 2 else "key_mask(mask)"
    if rows != shape[missing]:
        raise ValueError(
            f"mask must be broadcastable to the scores {tuple(shape)}, but has the shape {tuple(mask.shape)};"
            f" for a row a text write {texts}"
        )
    which = "query" if missing == len(shape) - 2 else "head"
    raise ValueError(
        f"mask of the shape {tuple(mask.shape)} could have a row a {which} or a row a text, since there are {rows} of"
        f" both: write mask[None] for the first, {texts} for the second"
    )


def _check_boolean(name: str, tensor: Tensor) -> None:
    kind = tensor.dtype if isinstance(tensor, Tensor) else f"a {type(tensor).__name__}, which is no tensor"
    if kind is torch.bool:
        return
    are_numbers = isinstance(tensor, Tensor) and not tensor.is_floating_point()
    hint = "; valid lengths become a mask by valid_length_mask(lengths, S)"
    may_be_lengths = are_numbers or isinstance(tensor, list | tuple | int)
    raise TypeError(f"{name} must be boolean (True = may attend), not {kind}{hint if may_be_lengths else ''}")
