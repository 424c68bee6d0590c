"""The three kinds of layers that join the positions of a sequence, and the cells of a recurrence."""

from __future__ import annotations

from typing import Final, Literal

Kind = Literal["convolution", "recurrence", "self-attention"]
Cell = Literal["gru", "rnn"]

KINDS: Final[tuple[Kind, ...]] = ("convolution", "recurrence", "self-attention")
MATRIX_PAIRS: Final[dict[Cell, int]] = {"gru": 3, "rnn": 1}
"""D x D matrices of a cell for its input, and as many for its state: reset, update and candidate in a gated unit."""
