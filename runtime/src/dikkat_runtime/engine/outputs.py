"""Outputs of an engine: the states of sources, and hypotheses of their translations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dikkat_runtime.errors import DataError
from dikkat_runtime.native.arrays import Array


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One output for one sentence."""

    tokens: tuple[int, ...]
    """Ids without the begin and end marks."""
    score: float
    """`log_probability / length ** alpha`, the end mark counted in the length (Wu et al. 2016, section 7).

    NaN, as the log-probability, where `DecodingOptions.scores` is off and the way of decoding does not need them.
    """
    log_probability: float
    """Sum of the model's own log-probabilities (natural logarithm), the end mark's included; never above 0."""
    finished: bool
    """True if the model ended the sentence itself, before the length cap."""


EMPTY = Hypothesis(tokens=(), score=0.0, log_probability=0.0, finished=True)
"""The only output of an empty sentence."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The encoder states of a batch of sources."""

    states: Array
    """(B, S, D), zeros at padding."""
    lengths: tuple[int, ...]
    """Tokens of each source, its end mark included where the model reads one."""
    words: tuple[Array, ...] | None = None
    """Rising ids of the words that the translation of each source may consist of; None where these are all."""


def require_finite(values: Array, where: str) -> Array:
    """Return the values that a model computed. Raises `DataError` as `not_finite` for NaN and infinities."""
    if not np.isfinite(values).all():
        raise not_finite(where)
    return values


def not_finite(where: str) -> DataError:
    """Return the error of finite weights, in the file `where`, whose products are too large for their type."""
    return DataError(
        "{where}: damaged: computing with these weights gives numbers that are not finite; restore the file"
    ).fill(where)
