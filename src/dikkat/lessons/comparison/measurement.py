"""Measure time and memory of calls: the fastest repetition, and the peak of allocated bytes.

Memory is what PyTorch's own allocator handed out, read from the memory events of its profiler. Those hold the working
memory inside its kernels too, which a count of the tensors that Python sees would miss.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from dikkat.lessons.comparison.layers import KINDS, Kind, build_layer, cost
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
    return Exponent(float(np.polyfit(np.log(x), np.log(y), 1)[0]), x[0], x[-1])


# Measure the three layers while the length grows.


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
    """Hold how a kind grows with the length: measured, and counted over the same range."""

    kind: Kind
    seconds: Exponent | None
    bytes: Exponent | None
    operations: Exponent | None


@dataclass(frozen=True, slots=True)
class Sweep:
    """Hold all points over growing length, and the exponents fitted to them."""

    lengths: tuple[int, ...]
    points: tuple[Point, ...]
    growth: tuple[Growth, ...]

    def of(self, kind: Kind) -> list[Point]:
        return [point for point in self.points if point.kind == kind]


def sweep(lengths: Sequence[int], width: int, *, kernel: int, seed: int, watch: Callable[[str], None]) -> Sweep:
    """Measure each kind at each of the ascending `lengths`; `watch` receives the name of each before it starts."""
    sized = [(kind, length) for length in lengths for kind in KINDS]
    calls = [
        (f"{kind}, n = {length:,}, d = {width:,}", _forward(kind, length, width, kernel, seed))
        for kind, length in sized
    ]
    points = tuple(
        Point(kind, length, width, cost(kind, length, width, kernel=kernel).with_projections, measured)
        for (kind, length), measured in zip(sized, measure(calls, watch), strict=True)
    )
    growth = tuple(_growth(kind, list(lengths), [point for point in points if point.kind == kind]) for kind in KINDS)
    return Sweep(tuple(lengths), points, growth)


def _forward(kind: Kind, length: int, width: int, kernel: int, seed: int) -> Callable[[], object]:
    layer = build_layer(kind, width, kernel=kernel, seed=seed).eval()
    x = torch.randn(1, length, width, generator=torch.Generator().manual_seed(seed))
    return lambda: layer(x)


def _growth(kind: Kind, sizes: list[int], points: list[Point]) -> Growth:
    return Growth(
        kind,
        fit_exponent(sizes, [point.measured.seconds for point in points]),
        fit_exponent(sizes, [float(point.measured.peak_bytes) for point in points]),
        fit_exponent(sizes, [float(point.operations) for point in points]),
    )
