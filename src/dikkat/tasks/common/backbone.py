"""The interface of a trained model for code that needs its hidden states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from dikkat.config import RunConfig
from dikkat.explain.attention_map import Stack


@dataclass(frozen=True, slots=True)
class Backbone:
    """Hold a trained model up to its hidden states: text to ids, ids to vectors."""

    model: nn.Module
    """Module that computes the hidden states, its attention layers included."""
    stack: Stack
    """Name of the stack that computes them."""
    encode: Callable[[str], list[int]]
    """Maps a text that is not empty to ids, without special tokens."""
    read: Callable[[list[int]], list[int]]
    """Maps the ids of a text to the model's input: truncated to its length, with its special tokens."""
    longest: int
    """Largest number of ids of a text that are read."""
    pieces: Callable[[Sequence[int]], list[str]]
    """Maps ids to one label each."""
    width: int
    """D, the length of a vector."""
    hidden: Callable[[Tensor, Tensor], Tensor]
    """Maps ids (B, S) and a mask (B, S), True at real tokens, to hidden states (B, S, D)."""
    pooled: Callable[[Tensor, Tensor], Tensor]
    """Maps hidden states (B, S, D) and the mask (B, S) to one vector for each text (B, D)."""


def longest_text(config: RunConfig, limit: int, special: int) -> int:
    """Return how many ids of a text fit beside `special` special tokens.

    `limit` is the length that was trained on; learned positions may end before it.
    """
    available = min(limit, config.model.max_positions) if config.model.positions == "learned" else limit
    return available - special
