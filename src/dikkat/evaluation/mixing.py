"""Weigh what an encoder adds to scores that are known already, by the loss of held-out texts."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

MAX_WEIGHT, _STEPS = 1.5, 30
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_ERRORS = 1.0
"""Standard errors by which the mean loss must fall for the encoder to count."""


def encoder_weight(
    known: NDArray[np.float64], added: NDArray[np.float64], losses: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> float:
    """Return the weight w for which `known + w * added` (N, C) has the least mean of `losses` (N,), found by sections.

    It is 0 where the fall of the loss may be chance.
    """

    def loss(weight: float) -> float:
        return float(losses(known + weight * added).mean())

    low, high = 0.0, MAX_WEIGHT
    for _ in range(_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        # the loss is convex in the weight
        low, high = (low, right) if loss(left) <= loss(right) else (left, high)
    weight = round((low + high) / 2, 4)
    falls = losses(known) - losses(known + weight * added)
    error = float(falls.std(ddof=1)) / math.sqrt(len(falls)) if len(falls) > 1 else math.inf
    return weight if float(falls.mean()) > _ERRORS * error else 0.0
