"""Attention once more, in numpy and float64, as the paper writes it (Vaswani et al. 2017, section 3.2.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]


def to_numpy(tensor: Tensor) -> Array:
    return np.asarray(tensor.detach().double().cpu().numpy())


def softmax_over_allowed(scores: Array, mask: NDArray[np.bool_] | None) -> Array:
    """Weights over the allowed keys of each row; a row without any is zero."""
    allowed = np.ones_like(scores, dtype=bool) if mask is None else np.broadcast_to(mask, scores.shape)
    weights = np.zeros_like(scores)
    for row in np.ndindex(*scores.shape[:-1]):
        chosen = allowed[row]
        if chosen.any():
            exponentials = np.exp(scores[row][chosen] - scores[row][chosen].max())
            weights[row][chosen] = exponentials / exponentials.sum()
    return weights


def numpy_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, beta: float | None = None
) -> tuple[Array, Array]:
    """Output and weights."""
    q, k, v = to_numpy(query), to_numpy(key), to_numpy(value)
    temperature = 1.0 / np.sqrt(q.shape[-1]) if beta is None else beta
    scores = np.einsum("...tk,...sk->...ts", q, k) * temperature
    weights = softmax_over_allowed(scores, None if mask is None else mask.numpy())
    return np.einsum("...ts,...se->...te", weights, v), weights
