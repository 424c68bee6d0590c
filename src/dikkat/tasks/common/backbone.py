"""What the kinds of models have in common for whoever wants vectors: text to ids, ids to hidden states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from dikkat.config import RunConfig
from dikkat.explain.attention_map import Stack


@dataclass(frozen=True, slots=True)
class Backbone:
    """A trained model as far as its hidden states."""

    model: nn.Module
    """What computes the hidden states, its attentions included."""
    stack: Stack
    """Which of its stacks does."""
    encode: Callable[[str], list[int]]
    """Ids of a text that is not empty, without special tokens."""
    read: Callable[[list[int]], list[int]]
    """The ids that the model is given: not more than it can read, between the special tokens that it expects."""
    longest: int
    """Most ids of a text that are read."""
    pieces: Callable[[Sequence[int]], list[str]]
    """A label for each id."""
    width: int
    """D, numbers in a vector."""
    hidden: Callable[[Tensor, Tensor], Tensor]
    """Ids (B, S) and a mask that is True at real ones to hidden states (B, S, D)."""
    pooled: Callable[[Tensor, Tensor], Tensor]
    """Hidden states and mask to vectors of the whole (B, D)."""


def longest_text(config: RunConfig, limit: int, special: int) -> int:
    """Ids of a text that have room beside the special ones: what was trained on, or less where positions end before."""
    room = min(limit, config.model.max_positions) if config.model.positions == "learned" else limit
    return room - special
