"""The three layers: same shape in and out, PyTorch's own modules inside, drawn from a seed of their own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dikkat.lessons.comparison.layers import KINDS, CausalConvolution, Kind, Recurrence, build_layer
from dikkat.nn.multi_head_attention import MultiHeadAttention


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_are_kept_and_the_seed_decides_alone(kind: Kind) -> None:
    x = torch.randn(2, 7, 6)
    state = torch.random.get_rng_state()
    one, same, other = (build_layer(kind, 6, kernel=4, seed=seed)(x) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert one.shape == x.shape
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_the_convolution_is_a_sum_over_the_kernel() -> None:
    layer = build_layer("convolution", 5, kernel=3, seed=0)
    assert isinstance(layer, CausalConvolution)
    x = torch.randn(2, 6, 5)
    weight, bias = layer.convolution.weight, layer.convolution.bias
    assert bias is not None
    for t in range(6):
        # (D, D) of each tap that lies inside the sequence
        expected = bias + sum(x[:, t - 2 + tap] @ weight[:, :, tap].T for tap in range(3) if t - 2 + tap >= 0)
        torch.testing.assert_close(layer(x)[:, t], expected)


def test_cells_and_attention_are_the_named_modules() -> None:
    recurrence = build_layer("recurrence", 4, kernel=3, seed=0)
    assert isinstance(recurrence, Recurrence)
    assert type(recurrence.cell) is nn.GRU
    layer = build_layer("self-attention", 4, kernel=3, seed=0)
    assert isinstance(layer, MultiHeadAttention)
    assert layer.num_heads == 1


def test_parameters_by_hand() -> None:
    """k d^2 + d; three pairs of d x d matrices with two biases each; four d x d matrices with biases."""
    layers = [build_layer(kind, 8, kernel=3, seed=0) for kind in KINDS]
    counts = [sum(parameter.numel() for parameter in layer.parameters()) for layer in layers]
    assert counts == [3 * 64 + 8, 6 * 64 + 6 * 8, 4 * 64 + 4 * 8]
