"""Measure time and memory of calls: the fastest repetition, and the peak of allocated bytes.

Memory is what PyTorch's own allocator handed out, read from the memory events of its profiler. Those hold the working
memory inside its kernels too, which a count of the tensors that Python sees would miss.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from dikkat.lessons.comparison.layers import build_layer, cost
from dikkat.lessons.comparison.settings import KINDS, Cell, Kind
from dikkat.nn.chunked import chunked_attention
from dikkat.nn.functional import attention
from dikkat.nn.linear_time_attention import linear_attention
from dikkat.nn.sliding_window import sliding_window_attention
from dikkat_runtime.errors import msg

HOW_TIMED: Final = msg("fastest of several repetitions of one forward pass without gradients, float32, batch of 1")
HOW_MEMORY: Final = msg(
    "the most bytes that PyTorch's allocator held at once in that pass (events of its profiler): output and working "
    "memory, without the weights and the input"
)

ROUNDS: Final = 3
"""Rounds of measurement. Other processes come in bursts, so a call that is slowed in one round is not in another."""

_SECONDS = 0.05
_MIN_RUNS, _MAX_RUNS = 2, 10
_PROFILER_LOG = "KINETO_LOG_LEVEL"


@dataclass(frozen=True, slots=True)
class Measured:
    """Hold time and memory of one call."""

    seconds: float
    """Time of the fastest repetition, in seconds."""
    repetitions: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Exponent:
    """Hold the p of y ~ x^p, fitted by least squares to the logarithms over `first` ... `last` of x."""

    value: float
    first: int
    last: int


def measure(calls: Sequence[tuple[str, Callable[[], object]]], watch: Callable[[str], None]) -> list[Measured]:
    """Measure time and peak memory of named calls, all of them in each of `ROUNDS`.

    `watch` receives each name before its call.
    """
    taken: list[list[float]] = [[] for _ in calls]
    with torch.no_grad():
        for _ in range(ROUNDS):
            for (name, call), seconds in zip(calls, taken, strict=True):
                watch(msg("measuring {name}", name))
                seconds += _repeat(call)
        return [
            Measured(min(seconds), len(seconds), peak_bytes(call))
            for (_, call), seconds in zip(calls, taken, strict=True)
        ]


def _repeat(call: Callable[[], object]) -> list[float]:
    taken: list[float] = []
    while len(taken) < _MIN_RUNS or (sum(taken) < _SECONDS and len(taken) < _MAX_RUNS):
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return taken


def peak_bytes(call: Callable[[], object]) -> int:
    """Return the most bytes that PyTorch's CPU allocator held at once for `call`, its result included."""
    # otherwise the profiler tells standard error that it has started and stopped
    os.environ.setdefault(_PROFILER_LOG, "99")
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        result = call()
    del result
    assert profiled.profiler is not None
    assert profiled.profiler.kineto_results is not None
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


FITTED_POINTS: Final = 3
"""An exponent is fitted to the largest sizes, where the fastest-growing part dominates."""


def fit_exponent(sizes: list[int], values: list[float]) -> Exponent | None:
    """Return the exponent over the largest three of ascending `sizes`; None for fewer than two."""
    x, y = sizes[-FITTED_POINTS:], values[-FITTED_POINTS:]
    if len(x) < 2 or min(y) <= 0:
        return None
    slope = np.polyfit(np.log(x), np.log(y), 1)[0]
    return Exponent(float(slope), x[0], x[-1])


# Measure the three layers while one size grows and the other is fixed.

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


# Compare forms of attention for long inputs by time, memory and error (Tay et al. 2022).

WINDOW: Final = 64
WHOLE: Final = msg("whole matrix")
MAX_MATRIX_LENGTH: Final = 8192
"""Longest input for the whole matrix; beyond, its copies would take gigabytes."""

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
FORMS: Final[dict[str, Attend]] = {
    WHOLE: lambda query, key, value: attention(query, key, value)[0],
    "fused kernel": lambda query, key, value: F.scaled_dot_product_attention(query, key, value),
    "chunked": lambda query, key, value: chunked_attention(query, key, value),
    msg("window of {window}", WINDOW): lambda query, key, value: sliding_window_attention(query, key, value, WINDOW),
    "linear": lambda query, key, value: linear_attention(query, key, value),
}


@dataclass(frozen=True, slots=True)
class FormPoint:
    """Hold the measurements of one form at one length."""

    form: str
    length: int
    measured: Measured
    error: float | None
    """Root mean square of the difference from the whole matrix, relative to its own; None where that is too large."""


@dataclass(frozen=True, slots=True)
class FormGrowth:
    """Hold the exponents of a form in the length."""

    form: str
    seconds: Exponent | None
    bytes: Exponent | None


@dataclass(frozen=True, slots=True)
class Forms:
    """Hold all forms over all lengths, for one head of `width` and standard normal queries, keys and values."""

    width: int
    points: tuple[FormPoint, ...]
    growth: tuple[FormGrowth, ...]

    def of(self, form: str) -> list[FormPoint]:
        """Return the points of one form, by length."""
        return [point for point in self.points if point.form == form]


def compare_forms(lengths: Sequence[int], width: int, *, seed: int, watch: Callable[[str], None]) -> Forms:
    """Measure every form at each of the ascending `lengths`; `watch` receives the name of each before it starts."""
    calls: list[tuple[str, Callable[[], Tensor]]] = []
    configurations: list[tuple[str, int, float | None]] = []
    for length in lengths:
        generator = torch.Generator().manual_seed(seed)
        query, key, value = (torch.randn(1, 1, length, width, generator=generator) for _ in range(3))
        exact = FORMS[WHOLE](query, key, value) if length <= MAX_MATRIX_LENGTH else None
        for form, attend in FORMS.items():
            if form != WHOLE or exact is not None:
                call = partial(attend, query, key, value)
                calls.append((msg("attention, {form}, n = {length:,}", form, length), call))
                configurations.append((form, length, _error(call(), exact)))
    measurements = measure(calls, watch)
    points = [
        FormPoint(form, n, measured, error)
        for (form, n, error), measured in zip(configurations, measurements, strict=True)
    ]
    growth = tuple(_growth_of_forms(form, [point for point in points if point.form == form]) for form in FORMS)
    return Forms(width, tuple(points), growth)


def count_forms(lengths: Sequence[int]) -> int:
    """Return how many forms are measured in all."""
    return sum(len(FORMS) - (length > MAX_MATRIX_LENGTH) for length in lengths)


def _error(output: Tensor, exact: Tensor | None) -> float | None:
    if exact is None:
        return None
    return float((output - exact).square().mean().sqrt() / exact.square().mean().sqrt())


def _growth_of_forms(form: str, points: list[FormPoint]) -> FormGrowth:
    lengths = [point.length for point in points]
    return FormGrowth(
        form,
        fit_exponent(lengths, [point.measured.seconds for point in points]),
        fit_exponent(lengths, [float(point.measured.peak_bytes) for point in points]),
    )
