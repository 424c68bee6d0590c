"""Spearman's correlation against scipy and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from dikkat.explain.honesty.rank_correlation import (
    correlation_by_first_alone,
    mean_rank_correlation,
    rank_correlation,
)


@pytest.mark.parametrize("distinct", [3, 1000])
def test_it_is_scipys_also_with_ties(distinct: int) -> None:
    generator = np.random.default_rng(1)
    for length in (2, 3, 10, 57):
        first, second = (generator.integers(0, distinct, length).astype(float) for _ in range(2))
        if len(set(first)) > 1 and len(set(second)) > 1:
            assert rank_correlation(first, second) == pytest.approx(spearmanr(first, second).statistic, abs=1e-12)


def test_where_it_is_not_defined() -> None:
    assert math.isnan(rank_correlation(np.ones(4), np.arange(4.0)))
    assert math.isnan(rank_correlation(np.ones(1), np.ones(1)))
    with pytest.raises(ValueError, match="two vectors of one length"):
        rank_correlation(np.ones(3), np.ones(4))


def test_the_mean_is_over_rows_that_have_one_and_of_sizes() -> None:
    weights = np.array([[0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3], [0.1, 0.2, 0.7]])
    influence = np.array([[0.0, -1.0, -5.0], [1.0, 2.0, 3.0], [5.0, 1.0, 0.0]])
    assert mean_rank_correlation(weights, influence) == pytest.approx((1.0 - 1.0) / 2)
    assert math.isnan(mean_rank_correlation(np.ones((2, 3)), influence[:2]))


def test_what_the_first_alone_gives() -> None:
    """Two rankings that share their largest entry and are random below it."""
    generator = np.random.default_rng(2)
    found = []
    for _ in range(4000):
        first, second = generator.random(9), generator.random(9)
        first[3] = second[3] = 2.0
        found.append(rank_correlation(first, second))
    assert np.mean(found) == pytest.approx(correlation_by_first_alone(9), abs=0.02)
