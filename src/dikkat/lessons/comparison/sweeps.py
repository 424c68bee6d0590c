"""Measure the three layers while one size grows and the other is fixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from dikkat.lessons.comparison.costs import cost
from dikkat.lessons.comparison.kinds import KINDS, Cell, Kind
from dikkat.lessons.comparison.layers import build_layer
from dikkat.lessons.comparison.measurement import Exponent, Measured, fit_exponent, measure

Over = Literal["length", "width"]


@dataclass(frozen=True, slots=True)
class Point:
    """Hold the measurements of one layer at one size."""

    kind: Kind
    length: int
    width: int
    operations: int
    """Multiply-adds with projections, counted by formula."""
    measured: Measured


@dataclass(frozen=True, slots=True)
class Growth:
    """Hold how a kind grows with the varied size: measured, and counted over the same range."""

    kind: Kind
    seconds: Exponent | None
    bytes: Exponent | None
    operations: Exponent | None


@dataclass(frozen=True, slots=True)
class Sweep:
    """Hold all points over growing length or width, and the exponents fitted to them."""

    over: Over
    fixed: int
    """Size that is fixed."""
    sizes: tuple[int, ...]
    points: tuple[Point, ...]
    growth: tuple[Growth, ...]

    def of(self, kind: Kind) -> list[Point]:
        """Return the points of one kind, by size."""
        return [point for point in self.points if point.kind == kind]


def sweep(
    over: Over, sizes: Sequence[int], fixed: int, *, kernel: int, cell: Cell, seed: int, watch: Callable[[str], None]
) -> Sweep:
    """Measure each kind at each of the ascending `sizes`; `watch` receives the name of each before it starts."""
    sized = [(kind, *((size, fixed) if over == "length" else (fixed, size))) for size in sizes for kind in KINDS]
    calls = [
        (f"{kind}, n = {length:,}, d = {width:,}", _forward(kind, length, width, kernel, cell, seed))
        for kind, length, width in sized
    ]
    points = tuple(
        Point(kind, length, width, cost(kind, length, width, kernel=kernel, cell=cell).with_projections, measured)
        for (kind, length, width), measured in zip(sized, measure(calls, watch), strict=True)
    )
    growth = tuple(_growth(kind, list(sizes), [point for point in points if point.kind == kind]) for kind in KINDS)
    return Sweep(over, fixed, tuple(sizes), points, growth)


def _forward(kind: Kind, length: int, width: int, kernel: int, cell: Cell, seed: int) -> Callable[[], object]:
    layer = build_layer(kind, width, kernel=kernel, cell=cell, seed=seed).eval()
    x = torch.randn(1, length, width, generator=torch.Generator().manual_seed(seed))
    return lambda: layer(x)


def _growth(kind: Kind, sizes: list[int], points: list[Point]) -> Growth:
    return Growth(
        kind,
        fit_exponent(sizes, [point.measured.seconds for point in points]),
        fit_exponent(sizes, [float(point.measured.peak_bytes) for point in points]),
        fit_exponent(sizes, [float(point.operations) for point in points]),
    )
