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
    found = named_pooling(name, 8)
    if isinstance(found, AttentionPooling):
        nn.init.normal_(found.query)
    return found


def test_mean_of_the_real_positions(states: Tensor, mask: Tensor) -> None:
    found = pooling("mean")(states, mask)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(found[row], states[row, :length].mean(0))


def test_first_position(states: Tensor, mask: Tensor) -> None:
    assert torch.equal(pooling("first")(states, mask), states[:, 0])


def test_attention_is_a_softmax_over_the_real_positions(states: Tensor, mask: Tensor) -> None:
    attention = pooling("attention")
    assert isinstance(attention, AttentionPooling)
    found = attention(states, mask)
    for row, length in enumerate(LENGTHS):
        shares = torch.softmax(states[row, :length] @ attention.query / 8**0.5, dim=0)
        torch.testing.assert_close(found[row], shares @ states[row, :length])


def test_attention_starts_from_the_mean(states: Tensor, mask: Tensor) -> None:
    torch.testing.assert_close(named_pooling("attention", 8)(states, mask), pooling("mean")(states, mask))


@pytest.mark.parametrize("name", NAMES)
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
