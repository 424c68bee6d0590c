"""The native kernels over tensors: shapes and strides in, the same results as their PyTorch twins out."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int64, c_void_p

import torch
from torch import Tensor

from dikkat.native.calls import address, checked, index_address, is_wide, native_library
from dikkat.native.library import library

LEVELS = 1 << 16
"""Values of one 16-bit draw."""

LANES = 16
"""Float32 numbers side by side in the kernels, as in vectors.h."""


class _Rotation(ctypes.Structure):
    """`Rotation` of rotation.h."""

    _fields_ = (("cosines", c_void_p), ("sines", c_void_p), ("positions", c_int64), ("places", c_void_p))


class _Attention(ctypes.Structure):
    """`Attention` of attention.c."""

    _fields_ = (
        *((name, c_int64) for name in ("batch", "heads", "queries", "keys", "width", "value_width")),
        *((name, c_void_p) for name in ("query", "key", "value")),
        *((f"{name}_strides", c_int64 * 3) for name in ("query", "key", "value")),
        ("mask", c_void_p),
        ("mask_strides", c_int64 * 4),
        ("draws", c_void_p),
        ("threshold", c_int64),
        ("beta", c_float),
        ("scale", c_float),
        ("rotation", _Rotation),
        ("weights", c_void_p),
        ("wide", c_int64),
        ("threads", c_int64),
    )


class _Gradients(ctypes.Structure):
    """`Gradients` of attention.c."""

    _fields_ = (
        *((name, c_void_p) for name in ("query", "key", "value")),
        *((f"{name}_step", c_int64) for name in ("query", "key", "value")),
    )


class _Turning(ctypes.Structure):
    """`Turning` of kernels.c."""

    _fields_ = (
        *((name, c_int64) for name in ("batch", "heads", "length", "width")),
        ("strides", c_int64 * 3),
        ("x", c_void_p),
        ("rotation", _Rotation),
        *((name, c_int64) for name in ("back", "wide", "threads")),
    )


def runs_natively(*tensors: Tensor) -> bool:
    """Whether there is a kernel for these: all on the CPU, in one type, float32 or bfloat16."""
    types = {tensor.dtype for tensor in tensors}
    on_cpu = all(tensor.device.type == "cpu" for tensor in tensors)
    return on_cpu and len(types) == 1 and types <= {torch.float32, torch.bfloat16} and library() is not None


def attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    beta: float,
    draws: Tensor | None,
    threshold: int,
    table: Tensor | None = None,
    places: Tensor | None = None,
    *,
    keep_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """Output (B, H, T, E), a view of (B, T, H, E), and float32 weights (B, H, T, S) before dropout where they are kept.

    A weight is dropped where its 16-bit draw is below `threshold - LEVELS / 2`, the others are scaled to keep the mean.
    With a `table`, queries and keys, which must have one length, are first turned as by `turned`.
    """
    query, key, value = (_with_dense_rows(tensor) for tensor in (query, key, value))
    batch, heads, queries, _ = query.shape
    output = value.new_empty(batch, queries, heads, value.shape[-1])
    weights = _new_weights(batch, heads, queries, key.shape[2]) if keep_weights else None
    job, _kept = _attention(query, key, value, mask, beta, draws, threshold, weights, table, places)
    code = native_library().attention_forward(ctypes.byref(job), address(output))
    checked(code, "a position", job.rotation.positions)
    return output.transpose(1, 2), weights


def attention_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    weights: Tensor | None,
    beta: float,
    draws: Tensor | None,
    threshold: int,
    table: Tensor | None = None,
    places: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value, before they are turned, from the gradient (B, H, T, E) of the output.

    Those of one length lie side by side, as they do in what was split into them. Weights that the forward did not keep
    are computed again, the same to the bit.
    """
    query, key, value, gradient = (_with_dense_rows(tensor) for tensor in (query, key, value, gradient))
    if query.shape[2] == key.shape[2]:
        found = side_by_side(query, key, value)
    else:
        found = [*side_by_side(query), *side_by_side(key, value)]
    if not (query.shape[2] and key.shape[2]):
        # nothing flows where nothing is attended to
        return found[0].zero_(), found[1].zero_(), found[2].zero_()
    job, _kept = _attention(query, key, value, mask, beta, draws, threshold, weights, table, places)
    strides = (c_int64 * 3)(*gradient.stride()[:3])
    gradients = _Gradients(*(each.data_ptr() for each in found), *(each.stride(2) for each in found))
    code = native_library().attention_backward(ctypes.byref(job), address(gradient), strides, ctypes.byref(gradients))
    checked(code, "a position", job.rotation.positions)
    return found[0], found[1], found[2]


def side_by_side(*tensors: Tensor) -> list[Tensor]:
    """Room for tensors (B, H, T, K) of one length: views of one dense (B, T, sum of H x K)."""
    batch, _, length, _ = tensors[0].shape
    step = sum(tensor.shape[1] * tensor.shape[3] for tensor in tensors)
    room, first, views = tensors[0].new_empty(batch, length, step), 0, []
    for tensor in tensors:
        # strides by name: other ways to make the view leave those of a single position to chance
        views.append(room.as_strided(tensor.shape, (length * step, tensor.shape[3], step, 1), first))
        first += tensor.shape[1] * tensor.shape[3]
    return views


def add_dropped(rest: Tensor | None, x: Tensor, seed: int, threshold: int) -> Tensor:
    """`rest + dropout(x)`, or dropout alone; an entry is kept as in `attention_forward`, by the draws of `seed`."""
    x = x.contiguous()
    rest = None if rest is None else rest.contiguous()
    output = torch.empty_like(x)
    native_library().add_dropped(
        address(output),
        address(rest),
        address(x),
        c_int64(seed),
        c_int64(threshold - LEVELS // 2),
        c_float(_scale(threshold)),
        c_int64(x.numel()),
        is_wide(x),
        torch.get_num_threads(),
    )
    return output


def drawn_levels(seed: int, entries: int) -> Tensor:
    """(entries,): the 16-bit draws of `seed` that `add_dropped` makes for itself."""
    levels = torch.empty(entries, dtype=torch.int16)
    native_library().draw_levels(address(levels), c_int64(seed), c_int64(entries), torch.get_num_threads())
    return levels


def turned(x: Tensor, table: Tensor, places: Tensor | None, *, back: bool) -> Tensor:
    """(B, H, T, K), a view of (B, T, H, K): pairs of `x` turned by the angles whose cosines and sines `table` has.

    The float32 table is (2, positions, K/2); `places` (B, T) are rows of it, by default the first T.
    """
    x = _with_dense_rows(x)
    rotation, _kept = _rotation(table, places, x)
    output = x.new_empty(x.shape[0], x.shape[2], x.shape[1], x.shape[3])
    job = _Turning(
        x.shape[0],
        x.shape[1],
        x.shape[2],
        x.shape[3],
        strides=_strides(x),
        x=address(x),
        rotation=rotation,
        back=back,
        wide=is_wide(x),
        threads=torch.get_num_threads(),
    )
    checked(native_library().turn(ctypes.byref(job), address(output)), "a position", rotation.positions)
    return output.transpose(1, 2)


def smoothed_softmax(logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Turn (N, V) logits in place into the gradient of the smoothed loss; returns loss and likelihood of each row."""
    loss, likelihood = torch.empty(2, logits.shape[0])
    checked(
        native_library().smoothed_softmax(
            address(logits),
            index_address(targets, logits.shape[:1], "targets"),
            c_int64(logits.shape[0]),
            c_int64(logits.shape[1]),
            c_float(smoothing),
            address(loss),
            address(likelihood),
            is_wide(logits),
            torch.get_num_threads(),
        ),
        "a target",
        logits.shape[1],
    )
    return loss, likelihood


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    beta: float,
    draws: Tensor | None,
    threshold: int,
    weights: Tensor | None,
    table: Tensor | None,
    places: Tensor | None,
) -> tuple[_Attention, tuple[Tensor | None, ...]]:
    """The structure, and what must live as long as it does."""
    if table is not None and query.shape[2] != key.shape[2]:
        raise ValueError(f"{query.shape[2]} queries and {key.shape[2]} keys cannot have the same positions")
    rotation, places = _rotation(table, places, query)
    mask = None if mask is None else mask.expand(*query.shape[:3], key.shape[2])
    strides = {f"{name}_strides": _strides(each) for name, each in (("query", query), ("key", key), ("value", value))}
    job = _Attention(
        *query.shape[:3],
        key.shape[2],
        query.shape[3],
        value.shape[3],
        query.data_ptr(),
        key.data_ptr(),
        value.data_ptr(),
        **strides,
        mask=address(mask),
        mask_strides=(c_int64 * 4)(*(mask.stride() if mask is not None else (0, 0, 0, 0))),
        draws=address(draws),
        threshold=threshold - LEVELS // 2,
        beta=beta,
        scale=_scale(threshold),
        rotation=rotation,
        weights=address(weights),
        wide=is_wide(query),
        threads=torch.get_num_threads(),
    )
    return job, (mask, places)


def _rotation(table: Tensor | None, places: Tensor | None, x: Tensor) -> tuple[_Rotation, Tensor | None]:
    """The structure that turns `x`, and what must live as long as it does beside the table."""
    if table is None:
        return _Rotation(), None
    cosines, sines = table.unbind()
    if table.dtype != torch.float32 or 2 * table.shape[2] != x.shape[3] or not cosines.is_contiguous():
        raise ValueError(
            f"a table of {table.dtype} and the shape {tuple(table.shape)} cannot turn heads of width {x.shape[3]}"
        )
    if x.shape[2] and not table.shape[1]:
        # an empty tensor has no address, which would mean that nothing is turned
        raise IndexError("a table without positions turns nothing")
    places = None if places is None else places.contiguous()
    there = None if places is None else index_address(places, (x.shape[0], x.shape[2]), "positions")
    return _Rotation(address(cosines), address(sines), table.shape[1], there), places


def _new_weights(batch: int, heads: int, queries: int, keys: int) -> Tensor:
    """(B, H, T, S), each row of which begins at a multiple of `LANES` entries."""
    return torch.empty(batch, heads, queries, -(-keys // LANES) * LANES)[..., :keys]


def _with_dense_rows(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _strides(tensor: Tensor) -> ctypes.Array[c_int64]:
    return (c_int64 * 3)(*tensor.stride()[:3])


def _scale(threshold: int) -> float:
    return LEVELS / (LEVELS - threshold)
