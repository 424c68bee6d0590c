"""Native calls of attention: structures of attention.h, the output with its weights, and the gradients."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int64, c_void_p

import torch
from torch import Tensor

from dikkat.kernels.calls import LANES, address, check_status, dense_rows, is_float32, native_library, strides
from dikkat.kernels.dropout import drop_scale
from dikkat.kernels.head_layout import adjacent
from dikkat.kernels.random_bits import VALUES
from dikkat.kernels.rotary import RotationStruct, rotation_struct


class _Attention(ctypes.Structure):
    """`Attention` of attention.h."""

    _fields_ = (
        *((name, c_int64) for name in ("batch", "heads", "queries", "keys", "width", "value_width")),
        *((name, c_void_p) for name in ("query", "key", "value")),
        *((f"{name}_strides", c_int64 * 3) for name in ("query", "key", "value")),
        ("mask", c_void_p),
        ("mask_strides", c_int64 * 4),
        ("random_bits", c_void_p),
        ("threshold", c_int64),
        ("beta", c_float),
        ("scale", c_float),
        ("rotation", RotationStruct),
        ("weights", c_void_p),
        ("is_float32", c_int64),
        ("threads", c_int64),
    )


class _Gradients(ctypes.Structure):
    """`Gradients` of attention.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("query", "key", "value")),
        *((f"{name}_step", c_int64) for name in ("query", "key", "value")),
    )


def attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    beta: float,
    random_bits: Tensor | None,
    threshold: int,
    table: Tensor | None = None,
    position_ids: Tensor | None = None,
    *,
    keep_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """Compute the output (B, H, T, E), a view of (B, T, H, E), and float32 weights (B, H, T, S) where they are kept.

    Weights are those before dropout. One is dropped where its 16-bit number is below `threshold - VALUES / 2`; the
    others are scaled to keep the mean. With a `table` of rotary angles, queries and keys, which must have one length,
    are first turned. Raises `IndexError` for a position outside of the table.
    """
    query, key, value = (dense_rows(tensor) for tensor in (query, key, value))
    batch, heads, queries, _ = query.shape
    output = value.new_empty(batch, queries, heads, value.shape[-1])
    weights = _new_weights(batch, heads, queries, key.shape[2]) if keep_weights else None
    job, _keepalive = _job(query, key, value, mask, beta, random_bits, threshold, weights, table, position_ids)
    code = native_library().attention_forward(ctypes.byref(job), address(output))
    check_status(code, "a position", job.rotation.positions)
    return output.transpose(1, 2), weights


def attention_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    weights: Tensor | None,
    beta: float,
    random_bits: Tensor | None,
    threshold: int,
    table: Tensor | None = None,
    position_ids: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of query, key and value, before rotation, from that of the output (B, H, T, E).

    Gradients of one length lie side by side, as their tensors do in the projection that was split into them. Weights
    that the forward pass did not keep are computed again, the same to the bit.
    """
    query, key, value, gradient = (dense_rows(tensor) for tensor in (query, key, value, gradient))
    if query.shape[2] == key.shape[2]:
        gradients = adjacent(query, key, value)
    else:
        gradients = [*adjacent(query), *adjacent(key, value)]
    if not (query.shape[2] and key.shape[2]):
        # nothing flows where nothing is attended to
        return gradients[0].zero_(), gradients[1].zero_(), gradients[2].zero_()
    job, _keepalive = _job(query, key, value, mask, beta, random_bits, threshold, weights, table, position_ids)
    outputs = _Gradients(*(tensor.data_ptr() for tensor in gradients), *(tensor.stride(2) for tensor in gradients))
    steps = strides(gradient)
    code = native_library().attention_backward(ctypes.byref(job), address(gradient), steps, ctypes.byref(outputs))
    check_status(code, "a position", job.rotation.positions)
    return gradients[0], gradients[1], gradients[2]


def _job(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    beta: float,
    random_bits: Tensor | None,
    threshold: int,
    weights: Tensor | None,
    table: Tensor | None,
    position_ids: Tensor | None,
) -> tuple[_Attention, tuple[Tensor | None, ...]]:
    """Return the structure, and the tensors that must live as long as it does."""
    if table is not None and query.shape[2] != key.shape[2]:
        raise ValueError(f"{query.shape[2]} queries and {key.shape[2]} keys cannot have the same positions")
    rotation, position_ids = rotation_struct(table, position_ids, query)
    mask = None if mask is None else mask.expand(*query.shape[:3], key.shape[2])
    job = _Attention(
        *query.shape[:3],
        key.shape[2],
        query.shape[3],
        value.shape[3],
        query.data_ptr(),
        key.data_ptr(),
        value.data_ptr(),
        strides(query),
        strides(key),
        strides(value),
        mask=address(mask),
        mask_strides=(c_int64 * 4)(*(mask.stride() if mask is not None else (0, 0, 0, 0))),
        random_bits=address(random_bits),
        threshold=threshold - VALUES // 2,
        beta=beta,
        scale=drop_scale(threshold),
        rotation=rotation,
        weights=address(weights),
        is_float32=is_float32(query),
        threads=torch.get_num_threads(),
    )
    return job, (mask, position_ids)


def _new_weights(batch: int, heads: int, queries: int, keys: int) -> Tensor:
    """Return memory (B, H, T, S), each row of which begins at a multiple of `LANES` entries."""
    return torch.empty(batch, heads, queries, -(-keys // LANES) * LANES)[..., :keys]
