"""The attention classes of *Build a Large Language Model (From Scratch)*, chapter 3: the names of their parameters."""

from __future__ import annotations

from dikkat.models.key_table import Row, layer

MASK = "mask"
"""The causal mask, which the classes store as a buffer."""
_PARTS = ("query", "key", "value")


def single(parameters: bool = False) -> list[Row]:
    """One head of linear layers, or of bare `parameters`, which are kept as (inputs, outputs)."""
    if parameters:
        return [Row("attention.in_projection.weight", tuple(f"W_{part}" for part in _PARTS), transposed=True)]
    return [*layer("attention.in_projection", *(f"W_{part}" for part in _PARTS))]


def side_by_side(num_heads: int) -> list[Row]:
    """Heads that are objects of their own: all queries, then all keys, then all values."""
    return [
        *layer("attention.in_projection", *(f"heads.{head}.W_{part}" for part in _PARTS for head in range(num_heads)))
    ]


def split() -> list[Row]:
    """Heads that share one matrix, and the output projection."""
    return [*single(), *layer("attention.out_projection", "out_proj")]
