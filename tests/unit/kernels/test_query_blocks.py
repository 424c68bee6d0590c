"""Attention a block of queries at a time is attention: output, weights, gradients, dropout, with and without a bias."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dikkat.kernels import query_blocks
from dikkat.kernels.query_blocks import in_query_blocks, slice_axis
from dikkat.nn.functional import attention, fused_attention, fused_attention_with_weights

T, S = 23, 9
"""At 40 weights in memory: blocks of four queries, the last of three."""


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_blocks, "BLOCK_WEIGHTS", 40)


def tensors() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    query, key, value = (torch.randn(2, 3, n, width, requires_grad=True) for n, width in ((T, 8), (S, 8), (S, 5)))
    mask = torch.rand(2, 1, T, S) < 0.6
    mask[0, :, 6] = False
    return query, key, value, mask


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("rows", ["T", "1"])
def test_blocks_are_the_reference_with_its_gradients(biased: bool, rows: str) -> None:
    query, key, value, mask = tensors()
    mask = mask if rows == "T" else mask[:, :, :1]
    bias = torch.randn(3, T, S, requires_grad=True) if biased else None
    trained = [tensor for tensor in (query, key, value, bias) if tensor is not None]
    result, expected = (
        fused_attention(query, key, value, mask, bias=bias),
        attention(query, key, value, mask, bias=bias),
    )
    torch.testing.assert_close(result, expected[0], rtol=0, atol=1e-5)
    gradient = torch.randn_like(result)
    for ours, theirs in zip(
        torch.autograd.grad(result, trained, gradient), torch.autograd.grad(expected[0], trained, gradient), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("learning", [False, True])
def test_who_reads_the_weights_gets_all_blocks_and_changes_no_bit(learning: bool) -> None:
    query, key, value, mask = tensors()
    with torch.set_grad_enabled(learning):
        silent = fused_attention(query, key, value, mask)
        output, weights = fused_attention_with_weights(query, key, value, mask)
    assert torch.equal(output, silent)
    torch.testing.assert_close(weights, attention(query, key, value, mask)[1].detach(), rtol=0, atol=1e-6)
    if learning:
        gradients = [torch.autograd.grad(x.sin().sum(), (query, key, value)) for x in (output, silent)]
        for read, unread in zip(*gradients, strict=True):
            torch.testing.assert_close(read, unread, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("biased", [False, True])
def test_the_backward_pass_drops_what_the_forward_dropped(biased: bool) -> None:
    """With the identity as value the output is the weights, whose sums over queries are the gradient of the value."""
    query, key, _, mask = tensors()
    value = torch.eye(S).expand(2, 3, S, S).clone().requires_grad_()
    bias = torch.zeros(T, S) if biased else None
    output = fused_attention(query, key, value, mask, bias=bias, dropout=0.5)
    assert (output == 0).sum() > (~mask).sum() * 3
    (gradient,) = torch.autograd.grad(output.sum(), value)
    torch.testing.assert_close(gradient[..., 0], output.sum(-2))


def test_as_many_queries_at_a_time_as_fit() -> None:
    query, key, _, mask = tensors()
    seen = []

    def attend(rows: Tensor, allowed: Tensor) -> Tensor:
        seen.append((rows.shape[2], allowed.shape[2]))
        return rows

    assert torch.equal(in_query_blocks(attend, query, key, mask, recomputes=False), query)
    assert seen == [(4, 4)] * 5 + [(3, 3)]


def test_parts_of_what_is_broadcast() -> None:
    mask = torch.arange(12).view(3, 4)
    assert slice_axis(None, -2, slice(0, 1)) is None
    for whole, axis, expected in (
        (mask, -2, mask[1:3]),
        (mask, -1, mask[:, 1:3]),
        (mask[0], -2, mask[0]),
        (mask[:1], -2, mask[:1]),
    ):
        part = slice_axis(whole, axis, slice(1, 3))
        assert part is not None
        assert torch.equal(part, expected)
