"""What a layer costs on paper: multiply-adds, steps that must wait for each other, and the longest path.

The rows of Vaswani et al. (2017, table 1) with the constants that their O(...) leaves out, and with the projections
that it leaves out too: `n^2 d` is attention without its four D x D matrices, which cost more while n < 2 d.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dikkat.explain.comparison.kinds import KINDS, MATRIX_PAIRS, Cell, Kind


@dataclass(frozen=True, slots=True)
class Cost:
    """One layer of width d over n positions."""

    kind: Kind
    length: int
    width: int
    without_projections: int
    """Multiply-adds of what joins positions: the kernel; the state's own matrices; scores and weighted values."""
    with_projections: int
    """All multiply-adds of the layer; biases, softmax and activations are not counted."""
    sequential_steps: int
    """Steps of which each needs the one before."""
    path_length: int
    """Layers, or steps of a recurrence, that the first input passes through to reach the last output."""


@dataclass(frozen=True, slots=True)
class Formulas:
    """A cost as it is written in n, d and k, and its order."""

    without_projections: str
    with_projections: str
    sequential_steps: str
    path_length: str
    order: str
    """The orders of operations, sequential steps and path length."""


def cost(kind: Kind, length: int, width: int, *, kernel: int, cell: Cell) -> Cost:
    """The cost of one layer of `kind`; of a convolution's path, a stack of them."""
    if kind == "convolution":
        operations = kernel * length * width**2
        return Cost(kind, length, width, operations, operations, 1, layers_to_join(length, kernel))
    if kind == "recurrence":
        states = MATRIX_PAIRS[cell] * length * width**2
        return Cost(kind, length, width, states, 2 * states, length, length)
    pairs = 2 * length**2 * width
    return Cost(kind, length, width, pairs, pairs + 4 * length * width**2, 1, 1)


def costs(length: int, width: int, *, kernel: int, cell: Cell) -> dict[Kind, Cost]:
    """The cost of each kind."""
    return {kind: cost(kind, length, width, kernel=kernel, cell=cell) for kind in KINDS}


def receptive_field(layers: int, kernel: int) -> int:
    """How many inputs one output of a stack of convolutions sees: 1 + L(k - 1)."""
    return 1 + layers * (kernel - 1)


def layers_to_join(length: int, kernel: int) -> int:
    """The fewest layers of convolution whose field holds `length` positions; for a kernel of at least 2."""
    return max(1, -(-(length - 1) // (kernel - 1)))


def formulas(cell: Cell) -> Mapping[Kind, Formulas]:
    """The costs as text."""
    gates = "" if MATRIX_PAIRS[cell] == 1 else f"{MATRIX_PAIRS[cell]} "
    return {
        "convolution": Formulas("k n d²", "k n d²", "1", "⌈(n−1)/(k−1)⌉", "k n d², 1, n/k"),
        "recurrence": Formulas(f"{gates}n d²", f"{2 * MATRIX_PAIRS[cell]} n d²", "n", "n", "n d², n, n"),
        "self-attention": Formulas("2 n² d", "2 n² d + 4 n d²", "1", "1", "n² d, 1, 1"),
    }


COUNTED: Final = (
    "n positions, d width, k kernel. One operation is a multiplication and an addition of matrix products.",
    "Projections: the input's matrices of a recurrence; the query, key, value and output matrices of attention.",
    "Longest path: layers of convolution, steps of recurrence or layers of attention from the first input to the last "
    "output.",
)
