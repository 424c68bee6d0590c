"""The table of fixed positions as waves: the period of each column, and a shift as a rotation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dikkat.explain.pictures import check_format, new_figure, save_figure
from dikkat.nn.positions import LAYOUTS, Layout
from dikkat_runtime.engine.position_tables import pair_frequencies, sinusoids
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.localization import translated

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        if self.kind not in LAYOUTS:
            raise UsageError(
                'there is no fixed table of "{kind}" positions; choose from {layouts}', self.kind, ", ".join(LAYOUTS)
            )
        for name, size, least in (("dim", self.dim, 2), ("length", self.length, 2)):
            if not least <= size <= _MAX_VALUE:
                raise UsageError(
                    "{name} must be from {minimum} to {maximum:,}, not {value}", name, least, _MAX_VALUE, size
                )

    @property
    def layout(self) -> Layout:
        """Return the order of the sine and cosine columns."""
        return LAYOUTS[self.kind]

    @property
    def values(self) -> Array:
        return sinusoids(self.length, self.dim, self.kind)

    @property
    def frequencies(self) -> Array:
        """Return the radians per row of each of the D/2 whole pairs; an odd last column has no partner."""
        return pair_frequencies(self.dim, self.kind)[: self.dim // 2]

    def pair(self, column: int) -> int:
        """Return the index of the pair that a column belongs to. Raises `UsageError` for an unknown column."""
        if not 0 <= column < self.dim:
            raise UsageError("there is no column {column}: choose from 0 to {dim}", column, self.dim - 1)
        return column // 2 if self.layout == "interleaved" else column % ((self.dim + 1) // 2)

    def columns(self, pair: int) -> tuple[int, int]:
        """Return the sine and the cosine column of a whole pair."""
        return (2 * pair, 2 * pair + 1) if self.layout == "interleaved" else (pair, (self.dim + 1) // 2 + pair)

    def period(self, column: int) -> float:
        """Return the number of rows after which a column repeats. Raises `UsageError` for an unknown column."""
        return 2.0 * math.pi / float(pair_frequencies(self.dim, self.kind)[self.pair(column)])

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
            raise UsageError("a shift must be from 1 to {length}, the last row, not {shift}", self.length - 1, shift)
        whole = sorted(column for pair in range(self.dim // 2) for column in self.columns(pair))
        values = self.values
        return float(np.abs(values[:-shift] @ self.rotation(shift) - values[shift:])[:, whole].max())


def binary_lines() -> list[str]:
    """Return the numbers 0 to 7, whose bits are the positions of a table of zeros and ones."""
    return [msg("{number} in binary is {binary}", number, f"{number:03b}") for number in range(8)]


# Draw the position table: a few columns as waves, the whole table, and a shift as a rotation.

# told apart by every kind of colour vision (Okabe and Ito 2008), and by the dashes in grey
_COLOURS = ("#D55E00", "#E69F00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7")
_DASHES = ("-", "--", "-.", ":")
_STARTS = 3
"""Rows from which the shift is shown."""


def draw_positions(table: PositionTable, columns: Sequence[int], shift: int, path: Path) -> None:
    """Write the picture as PNG or SVG, by the suffix of `path`.

    Raises `UsageError` for another suffix, a column or a shift there is not; `DiskError` or `CannotCreateError` when
    `path` cannot be written.
    """
    check_format(path)
    figure = new_figure((12.5, 7.6))
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.1)
    top, bottom = figure.subfigures(2, 1, squeeze=False, height_ratios=(1, 1.15)).flatten()
    _draw_waves(top.subplots(), table, columns)
    left, right = bottom.subplots(1, 2, width_ratios=(1.35, 1))
    image = left.imshow(table.values, cmap="Blues", aspect="auto", interpolation="nearest")
    left.set_xlabel(translated("Column (encoding dimension)"))
    left.set_ylabel(translated("Row (position)"))
    left.set_title(translated("The whole table"), loc="left", fontsize=11)
    bottom.colorbar(image, ax=left)
    _draw_rotation(right, table, columns, shift)
    save_figure(figure, path)


def _draw_waves(axes: "Axes", table: PositionTable, columns: Sequence[int]) -> None:
    values = table.values
    for index, column in enumerate(columns):
        axes.plot(
            values[:, column],
            color=_COLOURS[index % len(_COLOURS)],
            linestyle=_DASHES[index % len(_DASHES)],
            linewidth=1.8,
            label=translated("Col {column} (period {period:.2f})", column, table.period(column)),
        )
    axes.set_xlabel(translated("Row (position)"))
    axes.set_ylabel(translated("value"))
    axes.set_xlim(0, table.length - 1)
    axes.set_title(translated("{kind}, width {dim}", table.kind, table.dim), loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _draw_rotation(axes: "Axes", table: PositionTable, columns: Sequence[int], shift: int) -> None:
    """Each pair is a point on a circle; the same shift is the same turn, wherever it starts."""
    error = table.rotation_error(shift)
    pairs = [pair for pair in dict.fromkeys(map(table.pair, columns)) if pair < len(table.frequencies)][:2] or [0]
    values = table.values
    for index, pair in enumerate(pairs):
        radius, colour = 1.0 - 0.4 * index, _COLOURS[2 * index]
        sine, cosine = table.columns(pair)
        points = radius * values[:, [cosine, sine]]
        axes.plot(points[:, 0], points[:, 1], ".", color=colour, alpha=0.35, markersize=5)
        degrees = math.degrees(shift * float(table.frequencies[pair]))
        label = translated("columns {sine}, {cosine}: {degrees:.1f}°", sine, cosine, degrees)
        axes.plot([], [], color=colour, label=label)
        for start in _starts(table.length, shift, math.ceil(table.period(sine))):
            arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", xy=tuple(points[start + shift]), xytext=tuple(points[start]), arrowprops=arrow)
            middle = points[start] + points[start + shift]
            # outside the outer circle, inside the inner one
            away = radius + 0.14 if index == 0 else radius - 0.19
            x, y = middle / max(float(np.hypot(*middle)), 1e-9) * away
            axes.text(x, y, f"{start}→{start + shift}", ha="center", va="center", fontsize=8, color=colour)
    axes.set_aspect("equal")
    axes.set_xlim(-1.3, 1.3)
    axes.set_ylim(-1.3, 1.3)
    axes.set_xlabel(translated("cosine column"))
    axes.set_ylabel(translated("sine column"))
    title = translated("{shift} rows on is one rotation for all rows\n(largest error {error:.0e})", shift, error)
    axes.set_title(title, loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5), title=translated("turned by"))


def _starts(length: int, shift: int, period: int) -> list[int]:
    """Rows spread over one period whose shifted row is still in the table."""
    last = min(length - 1 - shift, period)
    return sorted({round(number * last / _STARTS) for number in range(_STARTS)})
