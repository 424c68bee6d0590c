"""Sums of vectors in the order of a fixed binary tree, whichever process adds up which of its branches."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor


def tree_sum(leaves: range, leaf: Callable[[int], Tensor], lefts: list[Tensor] | None = None) -> Tensor:
    """Add up the vectors that `leaf` computes, each half of `leaves` by itself and then both, in float32.

    `leaf` may return the same memory each time. The only leaf of a range comes back as it is. While a leaf is computed,
    `lefts` holds the sums of the left halves that end right before a half with it, the largest first. The last leaf
    and these, the last of them first, add up to the whole.
    """
    lefts = [] if lefts is None else lefts
    if len(leaves) == 1:
        return leaf(leaves[0])
    middle = len(leaves) // 2
    left = tree_sum(leaves[:middle], leaf, lefts)
    if middle == 1:
        # the memory of a leaf holds the next one
        left = left.to(torch.float32, copy=True)
    lefts.append(left)
    right = tree_sum(leaves[middle:], leaf, lefts)
    return lefts.pop().add_(right)


def branches_within(leaves: range, own: range) -> list[range]:
    """Return the largest branches of the tree over `leaves` that lie in the stretch `own`, from left to right."""
    if own.start <= leaves.start and leaves.stop <= own.stop:
        return [leaves]
    if len(leaves) == 1 or leaves.stop <= own.start or own.stop <= leaves.start:
        return []
    middle = len(leaves) // 2
    return branches_within(leaves[:middle], own) + branches_within(leaves[middle:], own)


def sum_of_branches(leaves: range, branches: Mapping[range, Tensor]) -> Tensor:
    """Add up the sums of `branches`, which have all `leaves` between them, to the bits of `tree_sum`.

    Their memory is used up.
    """
    if leaves in branches:
        return branches[leaves]
    middle = len(leaves) // 2
    return sum_of_branches(leaves[:middle], branches).add_(sum_of_branches(leaves[middle:], branches))
