"""Masked pooling: what each form makes of the real positions, and nothing of the others."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from dikkat.nn.pooling import AttentionPooling, Pooling, PoolingName, named_pooling

NAMES = get_args(PoolingName)
LENGTHS = (5, 2, 1)


@pytest.fixture
def states() -> Tensor:
    return torch.randn(3, 5, 8)


@pytest.fixture
def mask() -> Tensor:
    return torch.arange(5) < torch.tensor(LENGTHS)[:, None]


def pooling(name: PoolingName) -> Pooling:
    result = named_pooling(name, 8)
    if isinstance(result, AttentionPooling):
        nn.init.normal_(result.query)
    return result


def test_mean_of_the_real_positions(states: Tensor, mask: Tensor) -> None:
    result = pooling("mean")(states, mask)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(result[row], states[row, :length].mean(0))


def test_first_position(states: Tensor, mask: Tensor) -> None:
    assert torch.equal(pooling("first")(states, mask), states[:, 0])


def test_attention_is_a_softmax_over_the_real_positions(states: Tensor, mask: Tensor) -> None:
    attention = pooling("attention")
    assert isinstance(attention, AttentionPooling)
    result = attention(states, mask)
    for row, length in enumerate(LENGTHS):
        shares = torch.softmax(states[row, :length] @ attention.query / 8**0.5, dim=0)
        torch.testing.assert_close(result[row], shares @ states[row, :length])


def test_attention_starts_from_the_mean(states: Tensor, mask: Tensor) -> None:
    torch.testing.assert_close(named_pooling("attention", 8)(states, mask), pooling("mean")(states, mask))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "max"])
def test_weights_are_those_of_the_result(name: PoolingName, states: Tensor, mask: Tensor) -> None:
    part = pooling(name)
    weights = part.weights(states, mask)
    torch.testing.assert_close(weights.sum(1), torch.ones(3))
    assert not weights[~mask].any()
    torch.testing.assert_close(torch.einsum("bs,bsd->bd", weights, states), part(states, mask))


@pytest.mark.parametrize("name", NAMES)
def test_padding_has_no_part(name: PoolingName, states: Tensor, mask: Tensor) -> None:
    part = pooling(name)
    other = torch.where(mask[..., None], states, torch.full_like(states, 1e4))
    assert torch.equal(part(states, mask), part(other, mask))


def test_max_takes_in_each_dimension_the_largest_of_the_real_positions(states: Tensor, mask: Tensor) -> None:
    result = pooling("max")(states, mask)
    for row, length in enumerate(LENGTHS):
        assert torch.equal(result[row], states[row, :length].max(0).values)


def test_padding_never_wins_the_max_even_where_all_words_are_lower() -> None:
    """Fault F6: zeros of padding above words that are all negative."""
    states = torch.tensor([[[-3.0, -2.0], [-1.0, -5.0], [0.0, 0.0]]])
    mask = torch.tensor([[True, True, False]])
    assert pooling("max")(states, mask).tolist() == [[-1.0, -2.0]]


def test_the_weights_of_the_max_are_the_shares_of_the_dimensions_won(mask: Tensor) -> None:
    states = torch.zeros(3, 5, 8)
    states[0, 3, :6], states[0, 1, 6:] = 2.0, 1.0
    weights = pooling("max").weights(states, mask)
    assert weights[0].tolist() == [0.0, 0.25, 0.0, 0.75, 0.0]
    # the first of equals, and of a single word all
    assert weights[1:].tolist() == [[1.0, 0.0, 0.0, 0.0, 0.0]] * 2


def test_the_max_over_no_words_is_zero_with_finite_gradients(states: Tensor) -> None:
    states.requires_grad_()
    none = torch.zeros(3, 5, dtype=torch.bool)
    result = pooling("max")(states, none)
    assert not result.any()
    assert not pooling("max").weights(states, none).any()
    result.sum().backward()
    assert states.grad is not None
    assert not states.grad.any()
