"""Tables of position encodings: sinusoids added to the embeddings, and rotary angles."""

from __future__ import annotations

import math

import numpy as np

from dikkat_runtime.native.arrays import Array, aligned

SINUSOIDAL = ("sinusoidal", "sinusoidal_halves", "sinusoidal_concatenated")
"""The names of the tables, as `model.positions` in config.json has them."""


def sinusoids(length: int, model_dim: int, kind: str) -> Array:
    """Compute the table (length, D) of sines and cosines that is added to the embeddings, in float64, as float32.

    "sinusoidal" is the paper's (Vaswani et al. 2017, section 3.5): column 2j is sin(i / 10000^(2j/D)) and column 2j+1
    its cosine. "sinusoidal_halves" has first all sines, then all cosines, as Hugging Face's Marian;
    "sinusoidal_concatenated" has that order and the frequencies 10000^(-j / (D/2 - 1)) of tensor2tensor and Marian.
    Raises `ValueError` for another kind.
    """
    if kind not in SINUSOIDAL:
        raise ValueError(f"{kind} is not a table of sines and cosines")
    pairs = (model_dim + 1) // 2
    exponents = np.arange(pairs, dtype=np.float64)
    exponents = exponents / max(pairs - 1, 1) if kind == "sinusoidal_concatenated" else 2.0 * exponents / model_dim
    # (T, 1) x (D/2,) -> (T, D/2)
    angles = np.arange(length, dtype=np.float64)[:, None] * np.exp(-math.log(10000.0) * exponents)
    # (T, D/2, 2) or (T, 2, D/2) -> (T, D)
    halves = np.stack((np.sin(angles), np.cos(angles)), axis=2 if kind == "sinusoidal" else 1)
    return aligned(halves.reshape(length, 2 * pairs)[:, :model_dim])


def rotations(length: int, head_dim: int) -> tuple[Array, Array]:
    """Return cosines and sines (length, K/2) of the angles of rotary positions (Su et al. 2021, section 3.2.2)."""
    exponents = np.arange(0, head_dim, 2, dtype=np.float64) / head_dim
    angles = np.arange(length, dtype=np.float64)[:, None] * np.exp(-math.log(10000.0) * exponents)
    return aligned(np.cos(angles)), aligned(np.sin(angles))


def rotated(x: Array, cosines: Array, sines: Array) -> Array:
    """Rotate each pair (2j, 2j+1) of heads (B, H, T, K) by the angles of positions (T, K/2)."""
    even, odd = x[..., 0::2], x[..., 1::2]
    result = np.empty_like(x)
    result[..., 0::2] = even * cosines - odd * sines
    result[..., 1::2] = even * sines + odd * cosines
    return result
