"""Non-linearities over numpy arrays, in the precision of their argument."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dikkat_runtime.native.arrays import Array

_ERFC = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223,
    0.17087277,
)  # fmt: skip
"""Chebyshev coefficients of Press et al. 2007, section 6.2: a relative error below 1.2e-7 everywhere."""


def erf(x: Array) -> Array:
    """Return the error function of `x`, in float64."""
    magnitude = np.abs(x, dtype=np.float64)
    t = 1.0 / (1.0 + 0.5 * magnitude)
    series = np.zeros_like(t)
    for coefficient in reversed(_ERFC):
        series = series * t + coefficient
    upper = t * np.exp(series - magnitude * magnitude)
    return np.asarray(np.where(x >= 0, 1.0 - upper, upper - 1.0))


def gelu(x: Array) -> Array:
    """Return `x` times the share of a normal distribution below it (Hendrycks and Gimpel 2016)."""
    return (0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))).astype(x.dtype)


def gelu_tanh(x: Array) -> Array:
    """Return the approximation of `gelu` by a tanh (Hendrycks and Gimpel 2016, section 2), as in GPT-2."""
    return (0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))).astype(x.dtype)


def relu(x: Array) -> Array:
    """Return the larger of `x` and 0."""
    return np.maximum(x, 0)


def silu(x: Array) -> Array:
    """Return `x` times its logistic function."""
    return (x / (1.0 + np.exp(-x))).astype(x.dtype)


def sigmoid(x: Array) -> Array:
    """Return the logistic function of `x`, without overflow."""
    decay = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, decay, 1) / (1 + decay))


PLAIN: dict[str, Callable[[Array], Array]] = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu}
GATED: dict[str, Callable[[Array], Array]] = {"geglu": gelu, "swiglu": silu}


def softmax(scores: Array) -> Array:
    """Return the softmax over the last axis; a row in which all scores are minus infinity becomes zero."""
    largest = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    total = weights.sum(axis=-1, keepdims=True)
    return np.asarray(weights / np.where(total > 0, total, 1))
