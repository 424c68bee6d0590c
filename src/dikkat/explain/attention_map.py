"""The attention weights of one head on one sentence, with the labels of their rows and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from dikkat_runtime.messages import msg

Stack = Literal["encoder", "decoder"]
Kind = Literal["self", "cross"]


@dataclass(frozen=True, slots=True, eq=False)
class AttentionMap:
    """Hold the weights (T, S) of one head; row t is how query token t spreads its attention over the keys.

    Raises `ValueError` when the weights do not have one row a query token and one column a key token.
    """

    # Not "T S": the run-time shape checks of tests would hide the constructor's own message.
    weights: Float[np.ndarray, "..."]
    """(T, S): queries are rows, keys are columns."""
    query_tokens: tuple[str, ...]
    """Labels of the T queries."""
    key_tokens: tuple[str, ...]
    """Labels of the S keys."""
    stack: Stack
    layer: int
    """Layer, from 0."""
    head: int | None
    """Head, from 0; None for the mean of all heads."""
    kind: Kind

    def __post_init__(self) -> None:
        if self.weights.ndim != 2:
            raise ValueError(
                f"attention weights have the axes (T, S), but {self.weights.ndim} axes {self.weights.shape} were given;"
                " pick one sentence and one head"
            )
        for axis, tokens, length in (
            (msg("query axis T"), self.query_tokens, self.weights.shape[0]),
            (msg("key axis S"), self.key_tokens, self.weights.shape[1]),
        ):
            if len(tokens) != length:
                raise ValueError(f"{axis}: the weights have {length} positions, but {len(tokens)} tokens were given")
        if self.stack == "encoder" and self.kind == "cross":
            raise ValueError('an encoder has no cross-attention; stack "decoder" has')
