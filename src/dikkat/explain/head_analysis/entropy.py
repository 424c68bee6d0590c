"""Compute the entropy of attention: how evenly a head spreads its weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def entropy(weights: Array) -> Array:
    """Compute -Σ w ln w of every row, (..., S) -> (...), in nats: 0 for one token, ln S for S equal ones."""
    positive = weights > 0.0
    nats: Array = -np.sum(weights * np.log(weights, out=np.zeros_like(weights), where=positive), axis=-1)
    return nats
