"""Few rows are rounded as many are: what is handed on is long enough, and what comes back is the plain result."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dikkat.kernels import dropout
from dikkat.kernels.batch_invariant import MIN_LENGTH, min_rows, pad_to_min_length
from dikkat.kernels.linear import linear as project
from dikkat.kernels.random_bits import random_bits
from dikkat.nn.functional import attention, fused_attention
from dikkat.nn.layers import Linear


@pytest.fixture
def rows_of_products(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each product had."""
    plain, seen = F.linear, []

    def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        seen.append(x.shape[:-1].numel())
        return plain(x, weight, bias)

    monkeypatch.setattr(F, "linear", linear)
    return seen


@pytest.mark.parametrize("bias", [True, False])
def test_a_projection_is_a_linear_layer_with_its_gradients(bias: bool) -> None:
    ours = Linear(5, 7, bias=bias)
    theirs = nn.Linear(5, 7, bias=bias)
    theirs.load_state_dict(ours.state_dict())
    for shape in ((1, 2, 5), (2, 3, 5), (40, 9, 5), (1, 1, 5), (3, 5)):
        x = torch.randn(shape, requires_grad=True)
        torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-6)
        (result,), (expected,) = (torch.autograd.grad(layer(x).sin().sum(), x) for layer in (ours, theirs))
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-6)


def test_no_product_of_a_sequence_has_few_rows(rows_of_products: list[int]) -> None:
    weight = torch.randn(6, 4)
    fewest = min_rows()
    for shape, rows in (
        ((1, 2, 4), fewest),
        ((3, 2, 4), max(6, fewest)),
        ((1, fewest, 4), fewest),
        ((2, fewest, 4), 2 * fewest),
        ((5, 1, 4), 5),  # a step of decoding
        ((5, 4), 5),
        ((0, 3, 4), 0),
        ((2, 0, 4), 0),
    ):
        rows_of_products.clear()
        assert project(torch.randn(shape), weight).shape == (*shape[:-1], 6)
        assert rows_of_products == [rows]
    rows_of_products.clear()
    project(torch.randn(1, 2, 4, dtype=torch.bfloat16), weight.bfloat16())
    project(torch.randn(1, 2, 4, dtype=torch.float64), weight.double())
    assert rows_of_products == [2, 2]


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 1, 5), (4, 5), (5,), (2, 1, 1, 1), None])
@pytest.mark.parametrize("biased", [False, True])
def test_what_is_added_to_a_short_sequence_is_hidden(shape: tuple[int, ...] | None, biased: bool) -> None:
    query, key, value = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 6)
    mask = None if shape is None else torch.rand(shape) < 0.7
    bias = torch.randn(3, 1, 5) if biased else None
    longer = pad_to_min_length(query, key, value, mask, bias)
    assert longer[0].shape[2] == longer[1].shape[2] == longer[2].shape[2] == MIN_LENGTH
    output, weights = attention(*longer[:4], bias=longer[4])
    expected, of_short = attention(query, key, value, mask, bias=bias)
    torch.testing.assert_close(output[:, :, :4], expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(weights[:, :, :4, :5], of_short, rtol=0, atol=1e-6)
    assert not weights[..., 5:].any()


def test_what_is_long_enough_or_a_single_query_stays_itself() -> None:
    long, one, half = torch.randn(1, 1, MIN_LENGTH, 4), torch.randn(1, 1, 1, 4), torch.randn(1, 1, 3, 4).bfloat16()
    for query, key in ((long, long), (one, torch.randn(1, 1, 3, 4)), (half, half)):
        inputs = query, key, key, None, None
        assert all(ours is theirs for ours, theirs in zip(pad_to_min_length(*inputs), inputs, strict=True))


@pytest.mark.usefixtures("without_kernels")
def test_training_with_dropout_draws_for_its_own_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def counted(like: Tensor) -> Tensor:
        drawn.append(like.shape)
        return random_bits(like)

    monkeypatch.setattr(dropout, "random_bits", counted)
    x = torch.randn(1, 2, 4, 8)
    fused_attention(x, x, x, dropout=0.5)
    assert drawn == [(1, 2, 4, 4)]
