"""Compute attention rollout: through how many layers of attention a token reaches another one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def attention_rollout(layers: Sequence[ArrayLike]) -> list[Array]:
    """Return the rollout (S, S) up to each layer, from the self-attention (H, S, S) of each, lowest first.

    Row t tells how much of every input token is in position t above that layer, if nothing but attention and its
    residual sum moved information: the product of 0.5 A + 0.5 I, A being the mean of the heads with rows that sum to
    one (Abnar and Zuidema 2020, section 3). Raises `ValueError` for maps of another shape.
    """
    rollouts: list[Array] = []
    for layer in layers:
        heads = np.asarray(layer, dtype=np.float64)
        if heads.ndim != 3 or heads.shape[1] != heads.shape[2]:
            raise ValueError(f"rollout needs self-attention of shape (H, S, S) for each layer, not {heads.shape}")
        mixed = 0.5 * heads.mean(axis=0) + 0.5 * np.eye(heads.shape[1])
        # a query that may attend to nothing has a row of zeros: it keeps itself alone
        mixed /= mixed.sum(axis=1, keepdims=True)
        rollouts.append(mixed @ rollouts[-1] if rollouts else mixed)
    return rollouts
