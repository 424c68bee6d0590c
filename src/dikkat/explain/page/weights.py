"""Encode attention weights as text: a byte for each weight, and only the largest of very long rows.

A weight w in [0, 1] is stored as round(255 · sqrt(w)), so that small weights keep their order: the error is at most
sqrt(w) / 255 + 1 / 510², never above 0.004, and zero stays exactly zero.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float32]

KEPT = 12
"""Weights that a long row keeps."""


def packed(weights: Weights, longest_dense: int) -> dict[str, Any]:
    """Return `shape` and base64 `weights` of (H, T, S) weights; rows over `longest_dense` keep KEPT and their `keys`.

    Keys are little-endian 16-bit places. Raises `ValueError` unless the weights lie in [0, 1] and S fits in 16 bits.
    """
    if (
        weights.ndim != 3
        or not weights.size
        or weights.min() < 0
        or weights.max() > 1.001
        or weights.shape[2] > 1 << 16
    ):
        raise ValueError(f"weights (H, T, S) in [0, 1] with S <= 65536 are needed, but their shape is {weights.shape}")
    encoded: dict[str, Any] = {"shape": list(weights.shape)}
    if weights.shape[2] > max(longest_dense, KEPT):
        # the order within a row carries no meaning, so a partial sort is enough
        keys = np.argpartition(-weights, KEPT, axis=-1)[..., :KEPT]
        weights = np.take_along_axis(weights, keys, axis=-1)
        encoded["keys"] = _text(keys.astype("<u2"))
    encoded["weights"] = _text(np.rint(255 * np.sqrt(weights.clip(0, 1))).astype(np.uint8))
    return encoded


def packed_bytes(shape: tuple[int, ...], longest_dense: int) -> int:
    """Return the bytes that `packed` needs for weights of this shape, before base64."""
    heads, queries, keys = shape
    return heads * queries * (3 * KEPT if keys > max(longest_dense, KEPT) else keys)


def _text(array: npt.NDArray[Any]) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")
