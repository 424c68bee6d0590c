"""Spearman's coefficient against his formula for distinct values, and against Pearson's on ranks made by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dikkat.explain.head_analysis.alignment_head import (
    correlation_by_first_alone,
    mean_rank_correlation,
    rank_correlation,
)


def test_distinct_values_follow_the_formula() -> None:
    """1 - 6 Σ d² / (n (n² - 1))."""
    generator = np.random.default_rng(3)
    for length in (2, 3, 7, 30):
        first, second = generator.permutation(length).astype(float), generator.permutation(length).astype(float)
        wanted = 1 - 6 * float(((first - second) ** 2).sum()) / (length * (length**2 - 1))
        assert rank_correlation(np.exp(first), second**3) == pytest.approx(wanted, abs=1e-12)


def test_equal_values_share_their_mean_rank() -> None:
    first, ranks = np.array([0.2, 0.5, 0.2, 0.9, 0.2]), [2.0, 4.0, 2.0, 5.0, 2.0]
    second, others = np.array([7.0, 7.0, 1.0, 3.0, 0.0]), [4.5, 4.5, 2.0, 3.0, 1.0]
    assert rank_correlation(first, second) == pytest.approx(np.corrcoef(ranks, others)[0, 1], abs=1e-12)


@pytest.mark.parametrize(("first", "second"), [([1.0], [2.0]), ([], []), ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0])])
def test_no_order_has_no_correlation(first: list[float], second: list[float]) -> None:
    assert math.isnan(rank_correlation(np.array(first), np.array(second)))


def test_two_lengths() -> None:
    with pytest.raises(ValueError, match=r"one length, not shapes \(2,\) and \(3,\)"):
        rank_correlation(np.ones(2), np.ones(3))


def test_the_mean_is_over_rows_and_by_size() -> None:
    weights = np.array([[0.1, 0.2, 0.7], [0.7, 0.2, 0.1], [1 / 3, 1 / 3, 1 / 3]])
    influence = np.array([[0.0, -1.0, 2.0], [0.0, 1.0, -2.0], [3.0, 2.0, 1.0]])
    assert mean_rank_correlation(weights, influence) == pytest.approx((1.0 - 1.0) / 2)
    assert mean_rank_correlation(weights[:1], influence[:1]) == pytest.approx(1.0)
    assert math.isnan(mean_rank_correlation(weights[2:], influence[2:]))


@pytest.mark.parametrize("length", [2, 3, 5, 6])
def test_sharing_the_first_alone(length: int) -> None:
    """Mean over every order of the others."""
    ranks = np.arange(length, 0, -1.0)
    result = [
        rank_correlation(ranks, np.array([length, *rest], dtype=float))
        for rest in itertools.permutations(range(1, length))
    ]
    assert correlation_by_first_alone(length) == pytest.approx(np.mean(result), abs=1e-12)
