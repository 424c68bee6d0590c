"""Outputs of an engine: the states of sources, and hypotheses of their translations."""

from __future__ import annotations

from dataclasses import dataclass

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
