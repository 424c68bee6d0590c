"""Share out the matrices that Muon orthogonalizes, so that all ranks have about the same to compute."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from dikkat.kernels.newton_schulz import orthogonalize


def cut_by_cost(shapes: Sequence[tuple[int, int]], count: int) -> list[range]:
    """Cut a row of matrices into `count` neighbouring stretches of about equal cost.

    The cost of a matrix is its entries times its shorter side, which the products of Newton-Schulz take.
    """
    costs = list(accumulate(rows * columns * min(rows, columns) for rows, columns in shapes))
    # a matrix belongs to the stretch that its middle lies in
    middles = [(before + after) / 2 for before, after in zip([0, *costs], costs, strict=False)]
    owners = [min(count - 1, int(count * middle / costs[-1])) for middle in middles]
    firsts = [sum(owner < index for owner in owners) for index in range(count + 1)]
    return [range(first, last) for first, last in pairwise(firsts)]


def orthogonalize_stretch(directions: Sequence[Tensor], stretch: range, out: Tensor) -> None:
    """Orthogonalize the matrices number `stretch` of stacks (N, A, B), counted through, into the flat vector `out`."""
    number = start = 0
    for stack in directions:
        own = range(max(0, stretch.start - number), min(len(stack), stretch.stop - number))
        if own:
            size = stack[0].numel()
            part = out[start + own.start * size : start + own.stop * size]
            part.copy_(orthogonalize(stack[own.start : own.stop]).reshape(-1))
        number, start = number + len(stack), start + stack.numel()


def spans_of(directions: Sequence[Tensor], stretches: Sequence[range]) -> list[slice]:
    """Return which entries of the flat vector each stretch of matrices covers."""
    sizes = [stack[0].numel() for stack in directions for _ in range(len(stack))]
    starts = [0, *accumulate(sizes)]
    return [slice(starts[stretch.start], starts[stretch.stop]) for stretch in stretches]


def flat_like(directions: Sequence[Tensor]) -> Tensor:
    """Return an empty vector for all entries of `directions`."""
    return torch.empty(sum(stack.numel() for stack in directions), device=directions[0].device)
