"""Rollout against the products of the paper, written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dikkat.explain.head_analysis.importance import attention_rollout


def random_layers(layers: int, heads: int, size: int) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    scores = np.random.default_rng(5).normal(size=(layers, heads, size, size))
    return list(np.exp(scores) / np.exp(scores).sum(-1, keepdims=True))


def test_it_is_the_product_of_half_attention_and_half_identity() -> None:
    one, two, three = random_layers(3, 4, 6)
    first, second, third = (0.5 * item.mean(0) + 0.5 * np.eye(6) for item in (one, two, three))
    result = attention_rollout([one.astype(np.float32), two, three])
    assert len(result) == 3
    products = [first, second @ first, third @ second @ first]
    for ours, wanted in zip(result, products, strict=True):
        assert ours.dtype == np.float64
        np.testing.assert_allclose(ours, wanted, atol=1e-7)
        np.testing.assert_allclose(ours.sum(1), 1.0, atol=1e-7)


def test_two_steps_by_hand() -> None:
    """Below, token 1 looks at token 0; above, token 2 looks at token 1: so a quarter of 1's half reaches 2."""
    below = np.array([[[1.0, 0, 0], [1, 0, 0], [0, 0, 1]]])
    above = np.array([[[1.0, 0, 0], [0, 1, 0], [0, 1, 0]]])
    _, result = attention_rollout([below, above])
    np.testing.assert_allclose(result, [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]])


def test_a_row_that_sees_nothing_keeps_itself() -> None:
    layer = np.array([[[0.0, 0.0], [0.5, 0.5]]])
    np.testing.assert_allclose(attention_rollout([layer])[0], [[1.0, 0.0], [0.25, 0.75]])


def test_no_layers_give_none() -> None:
    assert attention_rollout([]) == []


def test_cross_attention_has_no_rollout() -> None:
    with pytest.raises(ValueError, match=r"self-attention of shape \(H, S, S\) for each layer, not \(2, 3, 4\)"):
        attention_rollout([np.ones((2, 3, 4))])
