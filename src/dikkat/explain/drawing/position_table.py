"""The table of fixed positions as waves: the period of each column, and a shift as a rotation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dikkat.nn.positions import Layout, frequencies, sinusoids
from dikkat_runtime.errors import UsageError
from dikkat_runtime.messages import msg

_LAYOUTS: dict[str, Layout] = {
    "sinusoidal": "interleaved",
    "sinusoidal_halves": "halves",
    "sinusoidal_concatenated": "concatenated",
}
_MAX_VALUE = 10_000

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PositionTable:
    """Hold `length` rows of width `dim` of the positions named `kind`, in float64.

    Raises `UsageError` for positions that are not a fixed table, and for a size out of range.
    """

    kind: str
    dim: int
    length: int

    def __post_init__(self) -> None:
        if self.kind not in _LAYOUTS:
            raise UsageError('there is no fixed table of "{kind}" positions; choose from {layouts}').fill(
                self.kind, ", ".join(_LAYOUTS)
            )
        for name, size, least in (("dim", self.dim, 2), ("length", self.length, 2)):
            if not least <= size <= _MAX_VALUE:
                raise UsageError("{name} must be from {least} to {max_value:,}, not {size}").fill(
                    name, least, _MAX_VALUE, size
                )

    @property
    def layout(self) -> Layout:
        """Return the order of the sine and cosine columns."""
        return _LAYOUTS[self.kind]

    @property
    def values(self) -> Array:
        """Return the table (T, D)."""
        import torch

        return _array(sinusoids(self.length, self.dim, self.layout, torch.float64))

    @property
    def frequencies(self) -> Array:
        """Return the radians per row of each of the D/2 whole pairs; an odd last column has no partner."""
        return _array(frequencies(self.dim, self.layout))[: self.dim // 2]

    def pair(self, column: int) -> int:
        """Return the index of the pair that a column belongs to. Raises `UsageError` for an unknown column."""
        if not 0 <= column < self.dim:
            raise UsageError("there is no column {column}: choose from 0 to {dim}").fill(column, self.dim - 1)
        return column // 2 if self.layout == "interleaved" else column % ((self.dim + 1) // 2)

    def columns(self, pair: int) -> tuple[int, int]:
        """Return the sine and the cosine column of a whole pair."""
        return (2 * pair, 2 * pair + 1) if self.layout == "interleaved" else (pair, (self.dim + 1) // 2 + pair)

    def period(self, column: int) -> float:
        """Return the number of rows after which a column repeats. Raises `UsageError` for an unknown column."""
        turning = _array(frequencies(self.dim, self.layout))
        return 2.0 * math.pi / float(turning[self.pair(column)])

    def rotation(self, shift: int) -> Array:
        """Return the matrix R (D, D) with `row p + shift = row p @ R` for every p (Vaswani et al. 2017, section 3.5).

        It turns each pair by its own angle; an odd last column, which has no partner, becomes 0.
        """
        matrix = np.zeros((self.dim, self.dim))
        for pair, frequency in enumerate(self.frequencies):
            sine, cosine = self.columns(pair)
            angle = shift * frequency
            matrix[[sine, cosine], [sine, cosine]] = math.cos(angle)
            matrix[cosine, sine], matrix[sine, cosine] = math.sin(angle), -math.sin(angle)
        return matrix

    def rotation_error(self, shift: int) -> float:
        """Return the largest difference between a row `shift` further on and the rotated row.

        Raises `UsageError` if there is none.
        """
        if not 1 <= shift < self.length:
            raise UsageError("a shift must be from 1 to {length}, the last row, not {shift}").fill(
                self.length - 1, shift
            )
        whole = sorted(column for pair in range(self.dim // 2) for column in self.columns(pair))
        values = self.values
        rotated = values[:-shift] @ self.rotation(shift)
        return float(np.abs(rotated - values[shift:])[:, whole].max())


def binary_lines() -> list[str]:
    """Return the numbers 0 to 7, whose bits are the positions of a table of zeros and ones."""
    return [msg("{number} in binary is {number2}").fill(number, f"{number:03b}") for number in range(8)]


def _array(tensor: Any) -> Array:
    return np.asarray(tensor.numpy(), dtype=np.float64)
