"""Cut the parameter vector into shares: each rank updates its own, and it alone holds their state and average."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from dikkat.kernels.adamw import PART

PIECE = 1 << 22
"""Entries of a vector that go from one rank to another at once."""
MatrixGroup = tuple[int, int, torch.Size]
"""A run of equal matrices in the parameter vector: first entry, number of matrices, shape."""


@dataclass(frozen=True, slots=True)
class Share:
    """The entries of one rank: whole matrices that Muon updates, and a range of those that AdamW does."""

    matrices: slice
    rest: slice

    def of(self, vector: Tensor) -> Tensor:
        """Copy these entries of a vector (N,), one range after the other."""
        return torch.cat([vector[self.matrices], vector[self.rest]])


def shares_of(groups: Sequence[MatrixGroup], size: int, count: int) -> list[Share]:
    """Cut a vector of `size` entries, which begins with the matrices of `groups`, into the shares of `count` ranks.

    Matrices are cut by their cost, the rest by its length, at whole parts of the sum that `kernels.adamw` computes.
    """
    shapes = [(shape[0], shape[1]) for _, number, shape in groups for _ in range(number)]
    starts = [0, *accumulate(rows * columns for rows, columns in shapes)]
    ranges = cut_by_cost(shapes, count) if shapes else [range(0)] * count
    parts = -(-(size - starts[-1]) // PART)
    cuts = [min(size, starts[-1] + PART * (rank * parts // count)) for rank in range(count + 1)]
    return [
        Share(slice(starts[range_.start], starts[range_.stop]), slice(first, last))
        for range_, (first, last) in zip(ranges, pairwise(cuts), strict=True)
    ]


def cut_by_cost(shapes: Sequence[tuple[int, int]], count: int) -> list[range]:
    """Cut a row of matrices into `count` neighbouring ranges of about equal cost.

    The cost of a matrix is its entries times its shorter side, which the products of Newton-Schulz take.
    """
    costs = list(accumulate(rows * columns * min(rows, columns) for rows, columns in shapes))
    # a matrix belongs to the range that its middle lies in
    middles = [(before + after) / 2 for before, after in zip([0, *costs], costs, strict=False)]
    owners = [min(count - 1, int(count * middle / costs[-1])) for middle in middles]
    firsts = [sum(owner < index for owner in owners) for index in range(count + 1)]
    return [range(first, last) for first, last in pairwise(firsts)]


def groups_within(groups: Sequence[MatrixGroup], span: slice) -> list[MatrixGroup]:
    """Return the matrices of `groups` that lie in `span`, whose ends cut none of them."""
    within: list[MatrixGroup] = []
    for start, count, shape in groups:
        entries = shape.numel()
        first = max(0, -(-(span.start - start) // entries))
        last = min(count, (span.stop - start) // entries)
        if first < last:
            within.append((start + first * entries, last - first, shape))
    return within


@dataclass(frozen=True, slots=True)
class Piece:
    """A few entries of a whole vector, and where the rank that holds them keeps them."""

    rank: int
    whole: slice
    """Where they lie in the whole vector."""
    kept: slice
    """Where they lie in the vector of that rank."""


def pieces_of(spans: Sequence[Sequence[slice]]) -> Iterator[Piece]:
    """Go through a whole vector by pieces, of which each rank keeps its `spans`, one after the other."""
    ranges: list[tuple[int, int, int, int]] = []
    for rank, own in enumerate(spans):
        kept = 0
        for span in own:
            ranges.append((span.start, span.stop, rank, kept))
            kept += span.stop - span.start
    for start, stop, rank, kept in sorted(ranges):
        for first in range(start, stop, PIECE):
            last = min(stop, first + PIECE)
            yield Piece(rank, slice(first, last), slice(kept + first - start, kept + last - start))
