"""The PyTorch twin of `int8_products`: PyTorch's product of bytes is exact in 32 bits."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

PANEL, QUAD, LANES = 64, 4, 16
"""Outputs of a panel, inputs side by side in it, and entries that rows are padded to, as in byte_parts.h."""
SHIFT = 128
MAX_VALUE = 127
BLOCK_ROWS = 256
"""Rows that share the scale of a column, at most, as in byte_gradient.c."""


def pack(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the fields of `PackedWeights` from a weight (outputs, inputs)."""
    outputs, inputs = weight.shape
    weight = F.pad(weight.float(), (0, -inputs % LANES, 0, -outputs % PANEL))
    integers, scale = _rounded(weight)
    integers = integers.nan_to_num(0.0).to(torch.int8)
    # (outputs, inputs) -> (panels, 64, quads, 4) -> (panels, quads, 64, 4)
    panels = integers.reshape(-1, PANEL, integers.shape[1] // QUAD, QUAD).transpose(1, 2).contiguous()
    return panels, scale[:, 0], SHIFT * integers.sum(dim=1, dtype=torch.int32)


@dataclass(frozen=True, slots=True, eq=False)
class RoundedWeights:
    """Rounded weights in the layout that PyTorch multiplies by."""

    integers: Tensor
    """int8, (inputs, outputs)."""
    scale: Tensor
    """float32, (outputs); NaN where a weight of the output is not finite."""


def product(x: Tensor, weights: RoundedWeights, bias: Tensor | None) -> Tensor:
    """Multiply (rows, inputs) by rounded weights and add `bias`."""
    integers, row_scale = _rounded(x.float())
    sums = torch._int_mm(integers.to(torch.int8), weights.integers)
    output = sums.float().mul_(row_scale)
    return (output.mul_(weights.scale) if bias is None else torch.addcmul(bias, output, weights.scale)).to(x.dtype)


def packed_product(x: Tensor, weight: Tensor, scale: Tensor, outputs: int, bias: Tensor | None) -> Tensor:
    """Multiply (rows, inputs) by packed weights and add `bias`."""
    # (panels, quads, 64, 4) -> (outputs, inputs)
    rows = weight.transpose(1, 2).flatten(2).flatten(0, 1)[:outputs, : x.shape[1]]
    return product(x, RoundedWeights(rows.T, scale[:outputs]), bias)


def weight_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """Multiply (rows, outputs)^T by (rows, inputs), columns rounded in blocks of rows."""
    total = torch.zeros(gradient.shape[1], x.shape[1], device=x.device)
    size = rows_of_block(x.shape[0])
    for start in range(0, x.shape[0], size):
        block = slice(start, start + size)
        (a, a_scale), (b, b_scale) = _rounded(gradient[block].float().T), _rounded(x[block].float().T)
        total += torch._int_mm(a.to(torch.int8), b.T.to(torch.int8)).float() * (a_scale * b_scale.T)
    return total.to(x.dtype)


def rows_of_block(rows: int) -> int:
    """Return the rows of a block: as equal as fours allow, with an even number of blocks for two threads."""
    blocks = 1 if rows <= BLOCK_ROWS else 2 * -(-rows // (2 * BLOCK_ROWS))
    return max(QUAD, -(-rows // (blocks * QUAD)) * QUAD)


def _rounded(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Round float32 rows (N, M); returns integers and scales (N, 1), NaN where an entry is not finite."""
    scale = rows.abs().amax(dim=1, keepdim=True).div_(MAX_VALUE)
    # infinity times zero is not a number either
    scale.add_(scale, alpha=0.0)
    # zero of what is too small to be divided by
    share = F.threshold(scale, torch.finfo(torch.float32).tiny, torch.inf).reciprocal_()
    return (rows * share).round_(), scale
