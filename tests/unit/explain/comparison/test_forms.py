"""Efficient forms beside the exact one: their errors and their memory."""

from __future__ import annotations

import pytest
import torch

from dikkat.lessons.comparison import measurement
from dikkat.lessons.comparison.measurement import FORMS, WHOLE, WINDOW, compare_forms, count_forms
from dikkat.nn.functional import attention
from dikkat.nn.masks import window_mask


def silent(_: str) -> None:
    pass


@pytest.mark.seed("E23")
def test_error_and_memory_of_each_form() -> None:
    lengths = [512, 1024, 2048]
    result = compare_forms(lengths, 16, seed=0, watch=silent)
    errors = {form: [point.error for point in result.of(form)] for form in FORMS}
    assert errors[WHOLE] == [0.0, 0.0, 0.0]
    for form in ("fused kernel", "chunked"):
        assert all(error is not None and error <= 1e-5 for error in errors[form])
    for form in (f"window of {WINDOW}", "linear"):
        assert all(error is not None and error > 0.3 for error in errors[form])
    for point in result.of(WHOLE):
        assert point.measured.peak_bytes >= 4 * point.length**2
    grown = {growth.form: growth.bytes.value for growth in result.growth if growth.bytes}
    assert grown[WHOLE] == pytest.approx(2.0, abs=0.05)
    assert grown["linear"] == pytest.approx(1.0, abs=0.1)
    longest = {form: result.of(form)[-1].measured.peak_bytes for form in FORMS}
    assert all(longest[form] < longest[WHOLE] / 3 for form in FORMS if form != WHOLE)


@pytest.mark.seed("E23")
def test_the_error_of_a_window_by_hand() -> None:
    """The same inputs, through exact attention under a mask."""
    result = compare_forms([200], 4, seed=3, watch=silent)
    generator = torch.Generator().manual_seed(3)
    query, key, value = (torch.randn(1, 1, 200, 4, generator=generator) for _ in range(3))
    exact, _ = attention(query, key, value)
    near, _ = attention(query, key, value, window_mask(200, window=WINDOW))
    expected = float((near - exact).norm() / exact.norm())
    assert result.of(f"window of {WINDOW}")[0].error == pytest.approx(expected, rel=1e-4)


def test_where_the_whole_matrix_would_be_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "MAX_MATRIX_LENGTH", 100)
    heard: list[str] = []
    result = compare_forms([100, 101], 4, seed=0, watch=heard.append)
    assert [point.length for point in result.of(WHOLE)] == [100]
    assert [point.error is None for point in result.of("linear")] == [False, True]
    assert count_forms([100, 101]) == len(result.points) == 2 * len(FORMS) - 1
    assert f"measuring attention, {WHOLE}, n = 101" not in heard
