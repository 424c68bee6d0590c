"""Compute Spearman's rank correlation: whether two measures put the same tokens first."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def rank_correlation(first: Array, second: Array) -> float:
    """Return Pearson's correlation of the ranks, from -1 to 1; ties share their mean rank (Spearman 1904).

    NaN where it is not defined: fewer than two values, or all of one side equal. Raises `ValueError` for two shapes.
    """
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(f"ranks need two vectors of one length, not shapes {first.shape} and {second.shape}")
    if len(first) < 2:
        return math.nan
    ours, theirs = (ranks - ranks.mean() for ranks in (_ranks(first), _ranks(second)))
    scale = math.sqrt((ours @ ours) * (theirs @ theirs))
    return float(ours @ theirs / scale) if scale else math.nan


def mean_rank_correlation(weights: Array, influence: Array) -> float:
    """Return the mean rank correlation of the rows of attention (T, S) with the size of `influence` (T, S).

    The size, since a token that speaks against a word is as much of a reason to look at it. Rows where the correlation
    is not defined do not count; NaN if none is left.
    """
    rows = [rank_correlation(ours, theirs) for ours, theirs in zip(weights, np.abs(influence), strict=True)]
    defined = [row for row in rows if not math.isnan(row)]
    return float(np.mean(defined)) if defined else math.nan


def correlation_by_first_alone(length: int) -> float:
    """Return the expected rank correlation of two rankings that share their first token and are random otherwise.

    3 / (length + 1): with centred ranks, the first contributes ((n - 1) / 2)² to the product and the others, whose mean
    is -1/2 on either side, (n - 1) / 4; the sum is divided by the sum of squares, n (n² - 1) / 12.
    """
    return 3.0 / (length + 1)


def _ranks(values: Array) -> Array:
    """From 1, the smallest first."""
    _, groups, counts = np.unique(values, return_inverse=True, return_counts=True)
    # the last rank of each group of equal values, less half of the way to its first
    mean_ranks: Array = np.cumsum(counts) - (counts - 1) / 2
    return mean_ranks[groups]
