"""The names of position encodings, of which `dikkat.nn.named_positions` builds each."""

from __future__ import annotations

from typing import Literal, get_args

AbsolutePosition = Literal["sinusoidal", "sinusoidal_halves", "sinusoidal_concatenated", "learned"]
PositionName = Literal[AbsolutePosition, "rotary", "alibi", "relative", "relative_buckets"]

ABSOLUTE_POSITIONS: tuple[str, ...] = get_args(AbsolutePosition)
"""Positions that are added to vectors; the others act in self-attention."""
