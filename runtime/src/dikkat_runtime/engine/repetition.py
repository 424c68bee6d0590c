"""Limit repetition: find tokens that a row must not repeat, and lower the logits of those it should not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dikkat_runtime.native.arrays import Array


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
