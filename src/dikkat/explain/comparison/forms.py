"""Compare forms of attention for long inputs by time, memory and error (Tay et al. 2022)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F

from dikkat.explain.comparison.measurement import Exponent, Measured, fit_exponent, measure
from dikkat.nn.chunked import chunked_attention
from dikkat.nn.functional import attention
from dikkat.nn.linear_time_attention import linear_attention
from dikkat.nn.sliding_window import sliding_window_attention
from dikkat_runtime.messages import msg

WINDOW: Final = 64
WHOLE: Final = msg("whole matrix")
MAX_MATRIX_LENGTH: Final = 8192
"""Longest input for the whole matrix; beyond, its copies would take gigabytes."""

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
FORMS: Final[dict[str, Attend]] = {
    WHOLE: lambda query, key, value: attention(query, key, value)[0],
    "fused kernel": lambda query, key, value: F.scaled_dot_product_attention(query, key, value),
    "chunked": lambda query, key, value: chunked_attention(query, key, value),
    msg("window of {window}").fill(WINDOW): lambda query, key, value: sliding_window_attention(
        query, key, value, WINDOW
    ),
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
                calls.append((msg("attention, {form}, n = {length:,}").fill(form, length), call))
                configurations.append((form, length, _error(call(), exact)))
    measurements = measure(calls, watch)
    points = [
        FormPoint(form, n, measured, error)
        for (form, n, error), measured in zip(configurations, measurements, strict=True)
    ]
    growth = tuple(_growth(form, [point for point in points if point.form == form]) for form in FORMS)
    return Forms(width, tuple(points), growth)


def count_forms(lengths: Sequence[int]) -> int:
    """Return how many forms are measured in all."""
    return sum(len(FORMS) - (length > MAX_MATRIX_LENGTH) for length in lengths)


def _error(output: Tensor, exact: Tensor | None) -> float | None:
    if exact is None:
        return None
    return float((output - exact).square().mean().sqrt() / exact.square().mean().sqrt())


def _growth(form: str, points: list[FormPoint]) -> FormGrowth:
    lengths = [point.length for point in points]
    return FormGrowth(
        form,
        fit_exponent(lengths, [point.measured.seconds for point in points]),
        fit_exponent(lengths, [float(point.measured.peak_bytes) for point in points]),
    )
