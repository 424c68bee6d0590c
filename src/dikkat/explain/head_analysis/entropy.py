"""Entropy of attention: how evenly a head spreads what it has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def entropy(weights: Array) -> Array:
    """(..., S) -> (...): -Σ w ln w of every row, in nats; 0 looks at one token, ln S at all S alike."""
    positive = weights > 0.0
    found: Array = -np.sum(weights * np.log(weights, out=np.zeros_like(weights), where=positive), axis=-1)
    return found
