"""The gated feed-forward network against the formulas of Shazeer (2020)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.unit.nn.reference import Array, to_numpy

from dikkat.nn.layers import GatedFeedForward


def silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def gelu(x: Array) -> Array:
    return np.asarray(x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))))


@pytest.mark.parametrize(("name", "gate"), [("swiglu", silu), ("geglu", gelu)])
def test_one_half_opens_the_other(name: str, gate: object) -> None:
    network, x = GatedFeedForward(4, 6, activation=name), torch.randn(2, 3, 4)
    assert callable(gate)
    inner = to_numpy(x) @ to_numpy(network.inner.weight).T + to_numpy(network.inner.bias)
    hidden = gate(inner[..., :6]) * inner[..., 6:]
    expected = hidden @ to_numpy(network.outer.weight).T + to_numpy(network.outer.bias)
    np.testing.assert_allclose(to_numpy(network(x)), expected, rtol=0, atol=1e-6)


def test_a_word_never_changes_the_output_of_another() -> None:
    network, x, order = GatedFeedForward(8, 16), torch.randn(1, 7, 8), torch.randperm(7)
    torch.testing.assert_close(network(x[:, order]), network(x)[:, order])


def test_an_activation_without_a_gate_is_refused() -> None:
    with pytest.raises(ValueError, match="activation must be one of geglu, geglu_tanh, swiglu, not 'relu'"):
        GatedFeedForward(4, 6, activation="relu")
