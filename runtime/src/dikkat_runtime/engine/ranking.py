"""Rank logits: the largest entries of a row, and the normalizers that turn logits into log-probabilities."""

from __future__ import annotations

import numpy as np

from dikkat_runtime.native.arrays import Array, address, aligned, empty
from dikkat_runtime.native.library import library


def top(values: Array, k: int, threads: int) -> tuple[Array, Array]:
    """Return the `k` largest of each row (N, M) and their indices, (N, k) each, the lowest index first among equals."""
    values, (rows, width) = aligned(values), values.shape
    largest, indices = empty((rows, k)), empty((rows, k), np.int64)
    sizes = rows, width, k
    library()[0].top_entries(address(values), *sizes, address(largest), address(indices), threads)
    return largest, indices


def log_normalizers(logits: Array, threads: int) -> tuple[Array, Array]:
    """Return the largest logit of each row (N, M), and the logarithm of the sum of exp(logit - largest).

    (N, 1) each.
    """
    rows, width = logits.shape
    largest, log_sums = empty((rows, 1)), empty((rows, 1))
    sizes = rows, width
    library()[0].normalizers(address(logits), *sizes, address(largest), address(log_sums), threads)
    return largest, log_sums
