"""Sums over the rows of a matrix, as the gradient of a bias needs them, without atomic additions.

A fixed number of programs each add up the rows that are theirs, and a second kernel adds up these partial sums, so that
the order of a sum depends on the shape alone.
"""

from __future__ import annotations

import torch
import triton
from jaxtyping import Float
from torch import Tensor
from triton import language as tl

PARTS = 256
"""Partial sums of a column; about two for each multiprocessor of a large GPU."""
ENTRIES = 4096
"""Entries of a tile."""


def tile_shape(width: int, widest: int) -> tuple[int, int]:
    """Return rows and columns of a tile, powers of two: enough columns, or about `widest`."""
    columns = triton.next_power_of_2(min(width, widest))
    return max(1, ENTRIES // columns), columns


@triton.jit(do_not_specialize=["rows"])  # type: ignore[untyped-decorator,unused-ignore]
def _partial_sums(
    values,
    outputs,
    gated,
    partial,
    rows,
    width,
    GATES: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PARTS: tl.constexpr,
):
    part, column = tl.program_id(0), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for start in range(part * ROWS, rows, PARTS * ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & (column < width)[None, :]
        offsets = row[:, None] * width + column[None, :]
        x = tl.load(values + offsets, mask=inside, other=0.0)
        if GATES:
            output = tl.load(outputs + offsets, mask=inside, other=0.0)
            x = tl.where(output > 0.0, x, 0.0)
            tl.store(gated + offsets, x, mask=inside)
        total += x.to(tl.float32)
    tl.store(partial + part * width + column, tl.sum(total, axis=0), mask=column < width)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _finish_sums(partial, sums, width, PARTS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.arange(0, PARTS)
    inside = (part < PARTS)[:, None] & (column < width)[None, :]
    values = tl.load(partial + part[:, None] * width + column[None, :], mask=inside, other=0.0)
    total = tl.sum(values, axis=0)
    tl.store(sums + column, total.to(sums.dtype.element_ty), mask=column < width)


def finish_sums(partial: Float[Tensor, "P W"], sums: Float[Tensor, "W"]) -> None:
    """Add up `PARTS` partial sums (P, W) of each column, float32, into `sums` (W,), in its type."""
    width = sums.shape[0]
    _finish_sums[(triton.cdiv(width, 16),)](partial, sums, width, PARTS=PARTS, COLUMNS=16)


def sum_rows(values: Float[Tensor, "N W"], sums: Float[Tensor, "W"]) -> None:
    """Add up the rows of dense `values` (N, W) in float32 into dense `sums` (W,), in its type."""
    _sum(values, sums, None)


def sum_gated_rows(
    values: Float[Tensor, "N W"], outputs: Float[Tensor, "N W"], sums: Float[Tensor, "W"]
) -> Float[Tensor, "N W"]:
    """Return `values` with zeros where the output of a ReLU is none above zero, and add up its rows as `sum_rows`."""
    gated = torch.empty_like(values)
    _sum(values, sums, (outputs, gated))
    return gated


def _sum(values: Tensor, sums: Tensor, gate: tuple[Tensor, Tensor] | None) -> None:
    rows, width = values.shape
    partial = torch.empty(PARTS, width, dtype=torch.float32, device=values.device)
    tensors = (values, *((values, values) if gate is None else gate), partial)
    tile_rows, columns = tile_shape(width, 128)
    _partial_sums[(PARTS, triton.cdiv(width, columns))](
        *tensors, rows, width, GATES=gate is not None, ROWS=tile_rows, COLUMNS=columns, PARTS=PARTS
    )
    finish_sums(partial, sums)
