"""Show many vectors: nearest neighbours, and the plane of largest variance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

_ROWS_AT_ONCE = 1024


def nearest_neighbours(vectors: Array, count: int) -> list[list[tuple[int, float]]]:
    """Return for each row of (N, D) the `count` rows of largest cosine, best first; the earlier row wins a tie.

    No row is its own neighbour. A row of zeros has no direction: it has no neighbours and is none.
    """
    directions = unit_rows(vectors)
    real = np.abs(directions).max(axis=1, initial=0.0) > 0.0
    neighbours: list[list[tuple[int, float]]] = []
    for start in range(0, len(directions), _ROWS_AT_ONCE):
        # (rows, D) x (D, N) -> (rows, N)
        cosines = directions[start : start + _ROWS_AT_ONCE] @ directions.T
        cosines[:, ~real] = -np.inf
        for row, line in enumerate(cosines, start=start):
            line[row] = -np.inf
            best = np.argsort(-line, kind="stable")[:count]
            neighbours.append(
                [(int(index), float(line[index])) for index in best if real[row] and line[index] > -np.inf]
            )
    return neighbours


def unit_rows(vectors: Array) -> NDArray[np.float64]:
    """Return each row divided by its length; a row of zeros stays."""
    exact = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    return exact / np.where(lengths > 0.0, lengths, 1.0)


def principal_plane(vectors: Array) -> tuple[NDArray[np.float64], float]:
    """Return coordinates (N, 2) in the plane of largest variance (Pearson 1901), and its share of the variance.

    The sign of an axis is that which makes its largest coordinate positive, so that a picture does not flip.
    """
    centred = np.asarray(vectors, dtype=np.float64)
    centred = centred - centred.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    coordinates = np.zeros((len(centred), 2))
    dimensions = min(2, len(singular))
    coordinates[:, :dimensions] = left[:, :dimensions] * singular[:dimensions]
    largest = coordinates[np.abs(coordinates).argmax(axis=0), [0, 1]]
    total = float((singular**2).sum())
    share = float((singular[:2] ** 2).sum()) / total if total > 0.0 else 1.0
    return coordinates * np.where(largest < 0.0, -1.0, 1.0), share
