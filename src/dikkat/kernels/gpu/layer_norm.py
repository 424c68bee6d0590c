"""Layer norm over the last dimension and its gradients, each row in registers."""

from __future__ import annotations

import torch
import triton
from jaxtyping import Float
from torch import Tensor
from triton import language as tl

from dikkat.kernels.gpu.columns import PARTS, finish_sums, tile_shape


@triton.jit(do_not_specialize=["rows"])  # type: ignore[untyped-decorator,unused-ignore]
def _forward(x, weight, bias, output, statistics, rows, width, eps, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    offsets = row[:, None] * width + column[None, :]
    values = tl.load(x + offsets, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=1) / width
    centred = tl.where(inside, values - mean[:, None], 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / width + eps)
    scale = tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)
    shift = tl.load(bias + column, mask=column < width, other=0.0).to(tl.float32)
    result = centred * inverse[:, None] * scale[None, :] + shift[None, :]
    tl.store(output + offsets, result.to(output.dtype.element_ty), mask=inside)
    tl.store(statistics + row, mean, mask=row < rows)
    tl.store(statistics + rows + row, inverse, mask=row < rows)


@triton.jit(do_not_specialize=["rows"])  # type: ignore[untyped-decorator,unused-ignore]
def _backward(
    gradient,
    x,
    weight,
    statistics,
    grad_x,
    partial,
    rows,
    width,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PARTS: tl.constexpr,
):
    part, column = tl.program_id(0), tl.arange(0, COLUMNS)
    scale = tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)
    grad_weight = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    grad_bias = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for start in range(part * ROWS, rows, PARTS * ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & (column < width)[None, :]
        offsets = row[:, None] * width + column[None, :]
        flow = tl.load(gradient + offsets, mask=inside, other=0.0).to(tl.float32)
        values = tl.load(x + offsets, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(statistics + row, mask=row < rows, other=0.0)
        inverse = tl.load(statistics + rows + row, mask=row < rows, other=0.0)
        normal = tl.where(inside, (values - mean[:, None]) * inverse[:, None], 0.0)
        scaled = flow * scale[None, :]
        along = tl.sum(scaled * normal, axis=1) / width
        middle = tl.sum(scaled, axis=1) / width
        result = (scaled - middle[:, None] - normal * along[:, None]) * inverse[:, None]
        tl.store(grad_x + offsets, result.to(grad_x.dtype.element_ty), mask=inside)
        grad_weight += flow * normal
        grad_bias += flow
    partial += part * 2 * width + column
    tl.store(partial, tl.sum(grad_weight, axis=0), mask=column < width)
    tl.store(partial + width, tl.sum(grad_bias, axis=0), mask=column < width)


def forward(
    x: Float[Tensor, "*rows D"], weight: Float[Tensor, "D"], bias: Float[Tensor, "D"], eps: float
) -> tuple[Float[Tensor, "*rows D"], Float[Tensor, "2 N"]]:
    """Normalise dense rows that fit into registers; returns them and float32 means and inverse deviations."""
    width, output = x.shape[-1], torch.empty_like(x)
    statistics = torch.empty(2, x.shape[:-1].numel(), dtype=torch.float32, device=x.device)
    rows = statistics.shape[1]
    if rows:
        tile_rows, columns = tile_shape(width, width)
        _forward[(triton.cdiv(rows, tile_rows),)](
            x, weight, bias, output, statistics, rows, width, eps, ROWS=tile_rows, COLUMNS=columns
        )
    return output, statistics


def backward(
    gradient: Float[Tensor, "*rows D"],
    x: Float[Tensor, "*rows D"],
    weight: Float[Tensor, "D"],
    statistics: Float[Tensor, "2 N"],
) -> tuple[Float[Tensor, "*rows D"], Float[Tensor, "D"], Float[Tensor, "D"]]:
    """Compute the gradients of dense rows x, of weight and of bias, from a dense `gradient` and what `forward` had."""
    rows, width = statistics.shape[1], x.shape[-1]
    grad_x = torch.empty_like(x)
    partial = torch.empty(PARTS, 2 * width, dtype=torch.float32, device=x.device)
    tile_rows, columns = tile_shape(width, width)
    tensors = (gradient, x, weight, statistics, grad_x, partial)
    _backward[(PARTS,)](*tensors, rows, width, ROWS=max(1, tile_rows // 2), COLUMNS=columns, PARTS=PARTS)
    sums = weight.new_empty(2 * width)
    finish_sums(partial, sums)
    return grad_x, sums[:width], sums[width:]
