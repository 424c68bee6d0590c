"""Sweeps over length and width: what is measured, and how attention grows."""

from __future__ import annotations

import math

import pytest

from dikkat.lessons.comparison.layers import KINDS
from dikkat.lessons.comparison.measurement import sweep


@pytest.mark.seed("C2", "E22")
def test_attention_grows_towards_the_square_of_the_length() -> None:
    """By counted operations; exponents of measured seconds and bytes stand beside them."""
    result = sweep([1024, 2048, 4096], 16, kernel=3, seed=0, watch=lambda _: None)
    growth = {item.kind: item for item in result.growth}
    exponents = {kind: item.operations for kind, item in growth.items()}
    assert all(item is not None and (item.first, item.last) == (1024, 4096) for item in exponents.values())
    counted = {kind: item.value for kind, item in exponents.items() if item is not None}
    assert 1.97 < counted.pop("self-attention") < 2.0
    assert list(counted.values()) == pytest.approx([1.0, 1.0])
    for item in growth.values():
        assert item.seconds is not None
        assert math.isfinite(item.seconds.value)
        assert item.bytes is not None
        assert item.bytes.value > 0


def test_points_name_their_sizes_and_their_operations() -> None:
    heard: list[str] = []
    result = sweep([4, 8], 6, kernel=2, seed=0, watch=heard.append)
    assert [(point.kind, point.length, point.width) for point in result.points] == [
        (kind, length, 6) for length in (4, 8) for kind in KINDS
    ]
    assert [point.operations for point in result.of("convolution")] == [2 * 4 * 36, 2 * 8 * 36]
    assert heard[:2] == ["measuring convolution, n = 4, d = 6", "measuring recurrence, n = 4, d = 6"]
    for point in result.points:
        assert point.measured.seconds > 0
        # at least the output
        assert point.measured.peak_bytes >= 4 * point.length * point.width


def test_one_length_has_no_exponent() -> None:
    result = sweep([4], 4, kernel=2, seed=0, watch=lambda _: None)
    assert [(item.seconds, item.bytes, item.operations) for item in result.growth] == [(None, None, None)] * 3
