"""Attention of short sequences: a head's queries and keys in one tile, so that its weights never leave the chip.

The way back computes the weights again and gives all three gradients from one program a head, so that nothing is added
up in an order that changes. PyTorch's kernels are made for long sequences, and those of a translator are short.
"""

from __future__ import annotations

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
def _load_rows(start, row, rows, stride, width, WIDTH: tl.constexpr):
    column = tl.arange(0, WIDTH)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    return tl.load(start + row[:, None] * stride + column[None, :], mask=inside, other=0.0)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _store_rows(start, values, row, rows, stride, width, WIDTH: tl.constexpr):
    column = tl.arange(0, WIDTH)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    tl.store(start + row[:, None] * stride + column[None, :], values.to(start.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=_SIZES)  # type: ignore[untyped-decorator,unused-ignore]
def _forward(
    query,
    key,
    value,
    mask,
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
    batch, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    row = tl.arange(0, LENGTH)
    q = _load_rows(query + batch * queries * query_row + head * width, row, queries, query_row, width, WIDTH)
    k = _load_rows(key + batch * keys * key_row + head * width, row, keys, key_row, width, WIDTH)
    v = _load_rows(value + batch * keys * value_row + head * width, row, keys, value_row, width, WIDTH)
    mask += batch * mask_batch + head * mask_head
    weights = _weights(q, k, mask, row, row, queries, keys, mask_query, mask_key, beta)
    result = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
    _store_rows(output + batch * queries * output_row + head * width, result, row, queries, output_row, width, WIDTH)


@triton.jit(do_not_specialize=_SIZES)  # type: ignore[untyped-decorator,unused-ignore]
def _backward(
    gradient,
    query,
    key,
    value,
    mask,
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
    batch, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    row = tl.arange(0, LENGTH)
    q = _load_rows(query + batch * queries * query_row + head * width, row, queries, query_row, width, WIDTH)
    k = _load_rows(key + batch * keys * key_row + head * width, row, keys, key_row, width, WIDTH)
    v = _load_rows(value + batch * keys * value_row + head * width, row, keys, value_row, width, WIDTH)
    flow = _load_rows(
        gradient + batch * queries * gradient_row + head * width, row, queries, gradient_row, width, WIDTH
    )
    mask += batch * mask_batch + head * mask_head
    weights = _weights(q, k, mask, row, row, queries, keys, mask_query, mask_key, beta)
    of_value = tl.dot(tl.trans(weights.to(q.dtype)), flow, input_precision="ieee")
    start = grad_value + batch * keys * grad_value_row + head * width
    _store_rows(start, of_value, row, keys, grad_value_row, width, WIDTH)
    of_weights = tl.dot(flow, tl.trans(v), input_precision="ieee")
    of_scores = weights * (of_weights - tl.sum(weights * of_weights, axis=1)[:, None]) * beta
    of_scores = of_scores.to(q.dtype)
    start = grad_query + batch * queries * grad_query_row + head * width
    _store_rows(start, tl.dot(of_scores, k, input_precision="ieee"), row, queries, grad_query_row, width, WIDTH)
    start = grad_key + batch * keys * grad_key_row + head * width
    _store_rows(start, tl.dot(tl.trans(of_scores), q, input_precision="ieee"), row, keys, grad_key_row, width, WIDTH)


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
    rows = [tensor.stride(2) for tensor in (query, key, value, output)]
    length = _tile_length(queries, key.shape[2])
    _forward[(batch * heads,)](
        query,
        key,
        value,
        mask.view(torch.uint8),
        output,
        heads,
        queries,
        key.shape[2],
        width,
        *rows,
        *mask.stride(),
        beta,
        LENGTH=length,
        WIDTH=max(16, triton.next_power_of_2(width)),
        num_warps=_warps(length),
    )
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
    batch, heads, queries, width = query.shape
    if not is_head_contiguous(gradient):
        gradient = gradient.transpose(1, 2).contiguous().transpose(1, 2)
    rows = [tensor.stride(2) for tensor in (gradient, query, key, value, *outputs)]
    length = _tile_length(queries, key.shape[2])
    _backward[(batch * heads,)](
        gradient,
        query,
        key,
        value,
        mask.view(torch.uint8),
        *outputs,
        heads,
        queries,
        key.shape[2],
        width,
        *rows,
        *mask.stride(),
        beta,
        LENGTH=length,
        WIDTH=max(16, triton.next_power_of_2(width)),
        num_warps=_warps(length),
    )


def _tile_length(queries: int, keys: int) -> int:
    """Return a power of two, at least 32: few lengths are few kernels to compile."""
    return max(32, triton.next_power_of_2(max(queries, keys)))


def _warps(length: int) -> int:
    return {32: 2, 64: 4}.get(length, 8)
