"""Choose next tokens from logits: rank them, keep a row from repeating itself, draw from what remains."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dikkat_runtime.engine.options import SamplingOptions
from dikkat_runtime.engine.products import softmax
from dikkat_runtime.native.arrays import Array, address, aligned, empty
from dikkat_runtime.native.library import library

# Rank logits: the largest entries of a row, and the normalizers that turn logits into log-probabilities.


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


# Limit repetition: find tokens that a row must not repeat, and lower the logits of those it should not.


def penalize(logits: Array, written: Sequence[int], penalty: float) -> None:
    """Move the logits (V,) of `written` tokens down by `penalty`, once each (Keskar et al. 2019, section 4.1)."""
    tokens, factor = np.unique(np.array(written, np.int64)), np.float32(penalty)
    logits[tokens] = np.where(logits[tokens] > 0, logits[tokens] / factor, logits[tokens] * factor)


def completing_tokens(written: Sequence[int], size: int) -> list[int]:
    """Return the tokens that would end an n-gram of `size` tokens which stands in `written` already."""
    begun = tuple(written[len(written) - size + 1 :])
    if len(written) < size:
        return []
    starts = range(len(written) - size + 1)
    return [written[start + size - 1] for start in starts if tuple(written[start : start + size - 1]) == begun]


# Draw the next token from the model's distribution, sharpened and truncated as the options say.


def draw(logits: Array, options: SamplingOptions, uniform: np.float32) -> int:
    """Return the token that `uniform`, a number of [0, 1), selects from the cumulative probabilities of `logits` (V,).

    Temperature first, then top-k, then top-p on what top-k left, then min-p; temperature 0 takes the most probable.
    """
    if options.temperature == 0:
        return int(logits.argmax())
    # by falling logit, the lowest id first among equals
    order = np.arange(len(logits))
    if options.top_k or options.top_p < 1:
        order = np.argsort(-logits, kind="stable")[: options.top_k or len(logits)]
    # the largest becomes 0 before the division, so that no temperature overflows
    shares = softmax((logits[order] - logits.max()) / np.float32(max(options.temperature, 1e-30)))
    if options.top_p < 1:
        # a token stays while those before it hold less than the share wanted
        shares = np.where(shares.cumsum() - shares >= options.top_p, 0, shares)
    shares = np.where(shares < options.min_p * shares.max(), 0, shares)
    ends = shares.cumsum()
    # the product may round up to the total, after which lies nothing
    at = min(uniform * ends[-1], np.nextafter(ends[-1], np.float32(0)))
    return int(order[np.searchsorted(ends, at, side="right")])
