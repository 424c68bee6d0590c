"""Choose for each label the probability from which on a text gets it, by held-out texts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MIN_TEXTS = 3
"""With fewer texts of a label than this, its cut is that of all labels together."""


def label_cuts(
    chances: NDArray[np.float64], wanted: NDArray[np.bool_], precision: float | None = None
) -> NDArray[np.float64]:
    """Return for each label the cut (C,) with the best F1, or the most texts of at least this `precision`.

    `chances` (N, C) are probabilities of held-out texts, `wanted` says which labels they have.
    """
    common = _cut(chances.reshape(-1), wanted.reshape(-1), precision)
    return np.array(
        [
            _cut(chances[:, label], wanted[:, label], precision) if count >= MIN_TEXTS else common
            for label, count in enumerate(wanted.sum(axis=0).tolist())
        ]
    )


def _cut(chances: NDArray[np.float64], wanted: NDArray[np.bool_], precision: float | None) -> float:
    order = np.argsort(-chances, kind="stable")
    ordered = chances[order]
    right, taken = np.cumsum(wanted[order]), np.arange(1, len(order) + 1)
    if not len(order) or not right[-1]:
        return 0.5
    # equal chances are taken together
    is_end = np.append(ordered[1:] < ordered[:-1], True)
    if precision is None:
        quality = 2.0 * right / (taken + right[-1])
    else:
        reaches = right >= precision * taken
        # where none is so precise, the most precise
        quality = np.where(reaches, right, 0.0) if (reaches & is_end).any() else right / taken
    best = int(np.where(is_end, quality, -1.0).argmax())
    below = ordered[best + 1] if best + 1 < len(ordered) else 0.0
    return float((ordered[best] + below) / 2)
