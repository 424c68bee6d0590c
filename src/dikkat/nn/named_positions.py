"""Positions by name: what is added to the embeddings, and what every self-attention does."""

from collections.abc import Callable, Sequence
from typing import Literal

from dikkat.config.model import PositionName
from dikkat.nn.positions import LearnedPositions, NoPositions, SinusoidalPositions
from dikkat.nn.relative import AlibiBias, BucketBias, RelativeKeys
from dikkat.nn.rotary import RotaryPositions

Positions = SinusoidalPositions | LearnedPositions | NoPositions
"""Called with embeddings (B, T, D) and an offset."""
ScoreBias = AlibiBias | RelativeKeys | BucketBias
"""Called with scaled queries (B, H, T, K) and S: what is added to the scores of the last T of S positions."""
RelativePositions = RotaryPositions | ScoreBias

PositionChoice = Literal["none", PositionName]

_ABSOLUTE: dict[str, Callable[[int, int], Positions]] = {
    "sinusoidal": lambda model_dim, _: SinusoidalPositions(model_dim),
    "sinusoidal_halves": lambda model_dim, _: SinusoidalPositions(model_dim, "halves"),
    "sinusoidal_concatenated": lambda model_dim, _: SinusoidalPositions(model_dim, "concatenated"),
    "learned": lambda model_dim, max_positions: LearnedPositions(model_dim, max_positions),
}
_RELATIVE: dict[str, Callable[[int, int, bool], RelativePositions]] = {
    "alibi": lambda num_heads, _, __: AlibiBias(num_heads),
    "relative": lambda _, head_dim, __: RelativeKeys(head_dim),
    "relative_buckets": lambda num_heads, _, causal: BucketBias(num_heads, bidirectional=not causal),
}


def embedding_positions(name: str, model_dim: int, max_positions: int) -> Positions:
    """Build the positions that are added to the embeddings; nothing for "none" and those that enter in attention.

    Raises `ValueError` for an unknown name.
    """
    _check(name)
    return _ABSOLUTE[name](model_dim, max_positions) if name in _ABSOLUTE else NoPositions()


def attention_positions(
    name: str, num_heads: int, head_dim: int, *, causal: bool, frequencies: Sequence[float] | None = None
) -> RelativePositions | None:
    """Build the positions of a self-attention; None for "none" and for positions added to the embeddings.

    The `frequencies` are those of rotary positions, where they are not the usual ones.

    Raises `ValueError` for an unknown name.
    """
    _check(name)
    if name == "rotary":
        return RotaryPositions(head_dim, frequencies=frequencies)
    return _RELATIVE[name](num_heads, head_dim, causal) if name in _RELATIVE else None


def _check(name: str) -> None:
    known = ("none", *_ABSOLUTE, "rotary", *_RELATIVE)
    if name not in known:
        raise ValueError(f"positions must be one of {', '.join(known)}, not {name!r}")
