"""The position-wise feed-forward network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.unit.nn.reference import to_numpy
from torch import Tensor, nn

from dikkat.nn.layers import FeedForward


def test_it_is_the_formula() -> None:
    network, x = FeedForward(4, 6), torch.randn(2, 3, 4)
    inner = np.maximum(to_numpy(x) @ to_numpy(network.inner.weight).T + to_numpy(network.inner.bias), 0)
    expected = inner @ to_numpy(network.outer.weight).T + to_numpy(network.outer.bias)
    np.testing.assert_allclose(to_numpy(network(x)), expected, rtol=0, atol=1e-6)


def one_by_one(activation: str, x: Tensor) -> Tensor:
    """The activation itself: both layers are the number 1."""
    network = FeedForward(1, 1, activation=activation)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(1.0 if parameter.dim() > 1 else 0.0)
    return network(x[:, None])[:, 0]


def test_gelu_is_the_exact_one() -> None:
    x = torch.linspace(-4, 4, 33)
    torch.testing.assert_close(one_by_one("gelu", x), 0.5 * x * (1 + torch.erf(x / 2**0.5)))


def test_gelu_tanh_is_the_published_approximation() -> None:
    """Hendrycks and Gimpel 2016, section 2; within 1e-3 of the exact one, and not the same."""
    x = torch.linspace(-4, 4, 33)
    formula = 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))
    approximate = one_by_one("gelu_tanh", x)
    torch.testing.assert_close(approximate, formula)
    assert 1e-5 < (approximate - one_by_one("gelu", x)).abs().max() < 1e-3


def test_silu_is_x_times_its_logistic_function() -> None:
    x = torch.linspace(-90, 90, 61)
    torch.testing.assert_close(one_by_one("silu", x), x / (1 + torch.exp(-x)))


@pytest.mark.seed("E2")
def test_ones_give_three_identical_rows_of_another_width() -> None:
    output = FeedForward(4, 4, output_dim=8)(torch.ones(2, 3, 4))
    assert output.shape == (2, 3, 8)
    assert torch.equal(output, output[:1, :1].expand(2, 3, 8))


@pytest.mark.seed("D3")
def test_permuting_positions_permutes_the_output() -> None:
    network, x, order = FeedForward(8, 16), torch.randn(1, 7, 8), torch.randperm(7)
    assert torch.equal(network(x[:, order]), network(x)[:, order])


@pytest.mark.seed("D5")
def test_a_word_never_changes_the_output_of_another() -> None:
    network, x = FeedForward(8, 16), torch.randn(1, 5, 8)
    changed = x.clone()
    changed[0, 2] += 1
    difference = (network(changed) - network(x)).abs().amax(-1)[0]
    assert [bool(d) for d in difference] == [False, False, True, False, False]


@pytest.mark.seed("A16")
def test_a_convolution_of_width_one_with_the_same_weights_is_the_same() -> None:
    network, x = FeedForward(4, 6), torch.randn(2, 5, 4)
    first, second = nn.Conv1d(4, 6, 1), nn.Conv1d(6, 4, 1)
    with torch.no_grad():
        for convolution, linear in ((first, network.inner), (second, network.outer)):
            convolution.weight.copy_(linear.weight[..., None])
            assert convolution.bias is not None
            convolution.bias.copy_(linear.bias)
    convolved = second(torch.relu(first(x.transpose(1, 2)))).transpose(1, 2)
    torch.testing.assert_close(network(x), convolved, rtol=0, atol=1e-6)


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(ValueError, match="activation must be one of relu, gelu, gelu_tanh, silu, not 'tanh'"):
        FeedForward(4, 6, activation="tanh")
