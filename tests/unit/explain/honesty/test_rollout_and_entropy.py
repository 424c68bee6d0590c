"""Rollout and entropy against their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dikkat.explain.honesty.entropy import entropy, greatest_entropy
from dikkat.explain.honesty.rollout import attention_rollout


def test_rollout_is_the_product_of_half_attention_and_half_identity() -> None:
    generator = np.random.default_rng(1)
    layers = generator.dirichlet(np.ones(5), size=(3, 2, 5))
    wanted = np.eye(5)
    for found, heads in zip(attention_rollout(list(layers)), layers, strict=True):
        wanted = (0.5 * (heads[0] + heads[1]) / 2 + 0.5 * np.eye(5)) @ wanted
        np.testing.assert_allclose(found, wanted, atol=1e-12)
        np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_a_masked_row_keeps_itself() -> None:
    weights = np.array([[[0.0, 0.0], [1.0, 0.0]]])
    np.testing.assert_allclose(attention_rollout([weights])[0], [[1.0, 0.0], [0.5, 0.5]])


@pytest.mark.parametrize("shape", [(2, 3), (1, 2, 3)])
def test_rollout_needs_self_attention(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="shape"):
        attention_rollout([np.ones(shape)])


def test_entropy_of_one_of_all_and_by_hand() -> None:
    rows = np.array([[1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0], [0.7, 0.2, 0.1, 0.0]])
    by_hand = -(0.7 * math.log(0.7) + 0.2 * math.log(0.2) + 0.1 * math.log(0.1))
    np.testing.assert_allclose(entropy(rows), [0.0, math.log(4), math.log(2), by_hand], atol=1e-12)


def test_the_most_that_a_row_can_have() -> None:
    np.testing.assert_allclose(greatest_entropy(3, 4, causal=False), [math.log(4)] * 3)
    np.testing.assert_allclose(greatest_entropy(3, 3, causal=True), [0.0, math.log(2), math.log(3)])
