"""Attention of short sequences: a head's queries and keys in one tile, so that its weights never leave the chip.

The way back computes the weights again and gives all three gradients from one program a head, so that nothing is added
up in an order that changes. PyTorch's kernels are made for long sequences, and those of a translator are short.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from jaxtyping import Bool, Float
from torch import Tensor
from triton import language as tl

from dikkat.kernels.calls import is_head_contiguous

_SIZES = ["queries", "keys", "mask_batch", "mask_head", "mask_query", "mask_key"]


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _weights(q, k, mask, row, column, queries, keys, mask_query, mask_key, beta):
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * beta
    inside = (row < queries)[:, None] & (column < keys)[None, :]
    allowed = tl.load(mask + row[:, None] * mask_query + column[None, :] * mask_key, mask=inside, other=0) != 0
    scores = tl.where(allowed, scores, float("-inf"))
    top = tl.max(scores, axis=1)
    # a query that may attend to nothing has zeros
    top = tl.where(top == float("-inf"), 0.0, top)
    weights = tl.exp(scores - top[:, None])
    total = tl.sum(weights, axis=1)
    return weights / tl.where(total == 0.0, 1.0, total)[:, None]


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _rows_of_head(start, heads, row, rows, stride, width, WIDTH: tl.constexpr):
    # where the rows of this program's head lie, and which entries are inside
    batch, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    column = tl.arange(0, WIDTH)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    return start + batch * rows * stride + head * width + row[:, None] * stride + column[None, :], inside


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _load_rows(start, heads, row, rows, stride, width, WIDTH: tl.constexpr):
    pointers, inside = _rows_of_head(start, heads, row, rows, stride, width, WIDTH)
    return tl.load(pointers, mask=inside, other=0.0)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _store_rows(start, values, heads, row, rows, stride, width, WIDTH: tl.constexpr):
    pointers, inside = _rows_of_head(start, heads, row, rows, stride, width, WIDTH)
    tl.store(pointers, values.to(start.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=_SIZES)  # type: ignore[untyped-decorator,unused-ignore]
def _forward(
    mask,
    query,
    key,
    value,
    output,
    heads,
    queries,
    keys,
    width,
    query_row,
    key_row,
    value_row,
    output_row,
    mask_batch,
    mask_head,
    mask_query,
    mask_key,
    beta,
    LENGTH: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = tl.arange(0, LENGTH)
    q = _load_rows(query, heads, row, queries, query_row, width, WIDTH)
    k = _load_rows(key, heads, row, keys, key_row, width, WIDTH)
    v = _load_rows(value, heads, row, keys, value_row, width, WIDTH)
    mask += tl.program_id(0) // heads * mask_batch + tl.program_id(0) % heads * mask_head
    weights = _weights(q, k, mask, row, row, queries, keys, mask_query, mask_key, beta)
    result = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
    _store_rows(output, result, heads, row, queries, output_row, width, WIDTH)


@triton.jit(do_not_specialize=_SIZES)  # type: ignore[untyped-decorator,unused-ignore]
def _backward(
    mask,
    gradient,
    query,
    key,
    value,
    grad_query,
    grad_key,
    grad_value,
    heads,
    queries,
    keys,
    width,
    gradient_row,
    query_row,
    key_row,
    value_row,
    grad_query_row,
    grad_key_row,
    grad_value_row,
    mask_batch,
    mask_head,
    mask_query,
    mask_key,
    beta,
    LENGTH: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = tl.arange(0, LENGTH)
    q = _load_rows(query, heads, row, queries, query_row, width, WIDTH)
    k = _load_rows(key, heads, row, keys, key_row, width, WIDTH)
    v = _load_rows(value, heads, row, keys, value_row, width, WIDTH)
    flow = _load_rows(gradient, heads, row, queries, gradient_row, width, WIDTH)
    mask += tl.program_id(0) // heads * mask_batch + tl.program_id(0) % heads * mask_head
    weights = _weights(q, k, mask, row, row, queries, keys, mask_query, mask_key, beta)
    of_value = tl.dot(tl.trans(weights.to(q.dtype)), flow, input_precision="ieee")
    _store_rows(grad_value, of_value, heads, row, keys, grad_value_row, width, WIDTH)
    of_weights = tl.dot(flow, tl.trans(v), input_precision="ieee")
    of_scores = weights * (of_weights - tl.sum(weights * of_weights, axis=1)[:, None]) * beta
    of_scores = of_scores.to(q.dtype)
    of_query = tl.dot(of_scores, k, input_precision="ieee")
    _store_rows(grad_query, of_query, heads, row, queries, grad_query_row, width, WIDTH)
    of_key = tl.dot(tl.trans(of_scores), q, input_precision="ieee")
    _store_rows(grad_key, of_key, heads, row, keys, grad_key_row, width, WIDTH)


def attention_forward(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S K"],
    mask: Bool[Tensor, "B H T S"],
    beta: float,
) -> Float[Tensor, "B H T K"]:
    """Compute `softmax(beta q k^T) v` of short sequences in bfloat16, with weights in float32.

    All lie by heads, the output too. `mask` is True where a query may attend, and expanded; a query that may attend to
    nothing gets zeros.
    """
    batch, heads, queries, width = query.shape
    output = query.new_empty(batch, queries, heads, width).transpose(1, 2)
    _launch(_forward, mask, (query, key, value, output), queries, key.shape[2], beta)
    return output


def attention_backward(
    gradient: Float[Tensor, "B H T K"],
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S K"],
    mask: Bool[Tensor, "B H T S"],
    beta: float,
    outputs: list[Tensor],
) -> None:
    """Write the gradients of query, key and value to `outputs`, from that of the output; all lie by heads."""
    if not is_head_contiguous(gradient):
        gradient = gradient.transpose(1, 2).contiguous().transpose(1, 2)
    _launch(_backward, mask, (gradient, query, key, value, *outputs), query.shape[2], key.shape[2], beta)


def _launch(kernel: Any, mask: Tensor, tensors: tuple[Tensor, ...], queries: int, keys: int, beta: float) -> None:
    """Start a program for each head; tiles are powers of two, at least 32: few lengths are few kernels to compile."""
    batch, heads, _, width = tensors[0].shape
    length = max(32, triton.next_power_of_2(max(queries, keys)))
    sizes, strides = (heads, queries, keys, width), (*(tensor.stride(2) for tensor in tensors), *mask.stride())
    tile = {"LENGTH": length, "WIDTH": max(16, triton.next_power_of_2(width))}
    warps = {32: 2, 64: 4}.get(length, 8)
    kernel[(batch * heads,)](mask.view(torch.uint8), *tensors, *sizes, *strides, beta, **tile, num_warps=warps)
