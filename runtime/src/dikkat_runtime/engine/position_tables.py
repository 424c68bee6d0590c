"""Tables of positions that are computed: sines and cosines that are added to embeddings, and angles of rotary ones."""

import math
from collections.abc import Sequence

import numpy as np

from dikkat_runtime.native.arrays import Array

SINUSOIDAL = ("sinusoidal", "sinusoidal_halves", "sinusoidal_concatenated")
"""The names of the tables, as `model.positions` in config.json has them."""


def pair_frequencies(model_dim: int, kind: str = SINUSOIDAL[0]) -> Array:
    """Return the radians a position by which each pair of columns turns, in float64, the fastest first.

    They are 10000^(-2j/D) (Vaswani et al. 2017, section 3.5), or 10000^(-j / (D/2 - 1)) of tensor2tensor and Marian in
    "sinusoidal_concatenated". Raises `ValueError` for another kind of table.
    """
    if kind not in SINUSOIDAL:
        raise ValueError(f"the table must be one of {', '.join(SINUSOIDAL)}, not {kind!r}")
    pairs = (model_dim + 1) // 2
    exponents = np.arange(pairs, dtype=np.float64)
    exponents = exponents / max(pairs - 1, 1) if kind == "sinusoidal_concatenated" else 2.0 * exponents / model_dim
    return np.asarray(np.exp(-math.log(10000.0) * exponents))


def sinusoids(length: int, model_dim: int, kind: str) -> Array:
    """Compute the table (length, D) of sines and cosines that is added to the embeddings, in float64.

    In "sinusoidal" column 2j is sin(i / 10000^(2j/D)) and column 2j+1 its cosine; the others have first all sines, then
    all cosines. An odd D leaves out the last cosine. Raises `ValueError` for another kind.
    """
    # (T, 1) x (D/2,) -> (T, D/2)
    angles = np.arange(length, dtype=np.float64)[:, None] * pair_frequencies(model_dim, kind)
    # (T, D/2, 2) or (T, 2, D/2) -> (T, D)
    halves = np.stack((np.sin(angles), np.cos(angles)), axis=2 if kind == "sinusoidal" else 1)
    return halves.reshape(length, -1)[:, :model_dim]


def rotations(length: int, head_dim: int, frequencies: Sequence[float] | None = None) -> Array:
    """Return cosines and sines (2, length, K/2) of the angles of rotary positions (Su et al. 2021, section 3.2.2).

    The `frequencies` are the radians a position of each pair; left out, 10000^(-2j/K). In float64.
    """
    turns = pair_frequencies(head_dim) if frequencies is None else np.array(frequencies, np.float64)
    angles = np.arange(length, dtype=np.float64)[:, None] * turns
    return np.stack((np.cos(angles), np.sin(angles)))
