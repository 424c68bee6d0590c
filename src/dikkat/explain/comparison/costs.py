"""Count the cost of a layer: multiply-adds, sequential steps and the longest path.

The rows of Vaswani et al. (2017, table 1) with the constants that their O(...) leaves out, and with the projections
that it leaves out too: `n^2 d` is attention without its four D x D matrices, which cost more while n < 2 d.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dikkat.explain.comparison.kinds import KINDS, MATRIX_PAIRS, Cell, Kind
from dikkat_runtime.messages import msg


@dataclass(frozen=True, slots=True)
class Cost:
    """Hold the cost of one layer of width d over n positions."""

    kind: Kind
    length: int
    width: int
    without_projections: int
    """Multiply-adds of the part that joins positions: the kernel; the state's own matrices; scores and weighted values.
    """
    with_projections: int
    """All multiply-adds of the layer; biases, softmax and activations are not counted."""
    sequential_steps: int
    """Steps that each need the step before."""
    path_length: int
    """Layers, or steps of a recurrence, between the first input and the last output."""


@dataclass(frozen=True, slots=True)
class Formulas:
    """Hold a cost as a formula in n, d and k, with its order."""

    without_projections: str
    with_projections: str
    sequential_steps: str
    path_length: str
    order: str
    """Orders of operations, sequential steps and path length."""


def cost(kind: Kind, length: int, width: int, *, kernel: int, cell: Cell) -> Cost:
    """Return the cost of one layer of `kind`; the path of a convolution is that of a stack."""
    if kind == "convolution":
        operations = kernel * length * width**2
        return Cost(kind, length, width, operations, operations, 1, layers_to_join(length, kernel))
    if kind == "recurrence":
        states = MATRIX_PAIRS[cell] * length * width**2
        return Cost(kind, length, width, states, 2 * states, length, length)
    pairs = 2 * length**2 * width
    return Cost(kind, length, width, pairs, pairs + 4 * length * width**2, 1, 1)


def costs(length: int, width: int, *, kernel: int, cell: Cell) -> dict[Kind, Cost]:
    """Return the cost of each kind."""
    return {kind: cost(kind, length, width, kernel=kernel, cell=cell) for kind in KINDS}


def receptive_field(layers: int, kernel: int) -> int:
    """Return how many inputs one output of a stack of convolutions depends on: 1 + L(k - 1)."""
    return 1 + layers * (kernel - 1)


def layers_to_join(length: int, kernel: int) -> int:
    """Return the fewest layers of convolution whose receptive field holds `length` positions.

    `kernel` must be at least 2.
    """
    return max(1, -(-(length - 1) // (kernel - 1)))


def formulas(cell: Cell) -> Mapping[Kind, Formulas]:
    """Return the costs as text."""
    gates = "" if MATRIX_PAIRS[cell] == 1 else f"{MATRIX_PAIRS[cell]} "
    return {
        "convolution": Formulas("k n d²", "k n d²", "1", "⌈(n−1)/(k−1)⌉", "k n d², 1, n/k"),
        "recurrence": Formulas(f"{gates}n d²", f"{2 * MATRIX_PAIRS[cell]} n d²", "n", "n", "n d², n, n"),
        "self-attention": Formulas("2 n² d", "2 n² d + 4 n d²", "1", "1", "n² d, 1, 1"),
    }


COUNTED: Final = (
    msg("n positions, d width, k kernel. One operation is a multiplication and an addition of matrix products."),
    msg("Projections: the input's matrices of a recurrence; the query, key, value and output matrices of attention."),
    msg(
        "Longest path: layers of convolution, steps of recurrence or layers of attention from the first input to the "
        "last output."
    ),
)
