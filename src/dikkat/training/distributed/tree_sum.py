"""Sums of vectors in the order of a fixed binary tree, whichever process adds up which of its branches."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def tree_sum(leaves: range, leaf: Callable[[int], Tensor]) -> Tensor:
    """Add up the vectors that `leaf` computes, each half of `leaves` by itself and then both, in float32.

    `leaf` may return the same memory each time. The only leaf of a range comes back as it is. Two processes that add
    up a half each, and then their sums, get the bits of one process that adds up all.
    """
    if len(leaves) == 1:
        return leaf(leaves[0])
    middle = len(leaves) // 2
    left = tree_sum(leaves[:middle], leaf)
    if middle == 1:
        # the memory of a leaf holds the next one
        left = left.to(torch.float32, copy=True)
    return left.add_(tree_sum(leaves[middle:], leaf))
