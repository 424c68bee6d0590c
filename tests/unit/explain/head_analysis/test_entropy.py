"""Entropy of rows whose entropy is known."""

from __future__ import annotations

import math

import numpy as np

from dikkat.explain.head_analysis.head_stats import entropy


def test_known_rows() -> None:
    rows = np.array([[0.25, 0.25, 0.25, 0.25], [0.0, 1.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    np.testing.assert_allclose(entropy(rows), [math.log(4), 0.0, math.log(2), 0.0], atol=1e-15)
    assert entropy(np.stack([rows, rows])).shape == (2, 4)


def test_an_uneven_row() -> None:
    weights = [0.7, 0.2, 0.1]
    assert math.isclose(float(entropy(np.array(weights))), -sum(item * math.log(item) for item in weights))
