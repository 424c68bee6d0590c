"""Cutting a projection apart: views and gradients of `Tensor.split`, and no copy where gradients lie together."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dikkat.kernels.calls import adjacent
from dikkat.kernels.library import library, why_absent
from dikkat.kernels.linear import split_heads

WIDTHS, HEADS = (8, 4, 4), (2, 1, 1)


def heads(x: Tensor) -> Tensor:
    """(B, T, H * 4) -> (B, H, T, 4)"""
    return x.unflatten(-1, (-1, 4)).transpose(1, 2)


class _Given(torch.autograd.Function):
    """Has gradients of its own, whatever comes from behind."""

    @staticmethod
    def forward(ctx: object, gradients: list[Tensor], *parts: Tensor) -> Tensor:
        ctx.gradients = gradients  # type: ignore[attr-defined]
        return parts[0].new_zeros(())

    @staticmethod
    def backward(ctx: object, _: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.gradients  # type: ignore[attr-defined]


def gradient_of(x: Tensor, gradients: list[Tensor]) -> Tensor:
    """Of `x`, where those of its parts, by heads, are given."""
    (result,) = torch.autograd.grad(_Given.apply(gradients, *split_heads(x, HEADS, 4)), x)
    return result


def test_parts_are_views_in_order() -> None:
    for x in (torch.randn(2, 3, 16), torch.randn(2, 3, 16, requires_grad=True)):
        for ours, theirs in zip(split_heads(x, HEADS, 4), x.split(WIDTHS, dim=-1), strict=True):
            assert torch.equal(ours, heads(theirs))
            assert ours.data_ptr() == theirs.data_ptr()


@pytest.mark.skipif(library() is None, reason=f"no native kernels: {why_absent()}")
@pytest.mark.parametrize("batch", [1, 2])
def test_gradients_that_lie_together_are_not_copied(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    x = torch.randn(batch, 3, 16, requires_grad=True)
    inputs = adjacent(*(heads(part) for part in x.detach().split(WIDTHS, dim=-1)))
    for item in inputs:
        item.copy_(torch.randn_like(item))
    wanted = torch.cat([item.transpose(1, 2).flatten(2) for item in inputs], dim=-1)
    monkeypatch.setattr(torch, "cat", None)
    result = gradient_of(x, inputs)
    assert torch.equal(result, wanted)
    assert result.data_ptr() == inputs[0].data_ptr()


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 2, 0)])
def test_other_gradients_are_put_together(order: tuple[int, ...]) -> None:
    """Also those that lie together in another order, or only in part."""
    x = torch.randn(2, 3, 16, requires_grad=True)
    parts = [heads(part) for part in x.detach().split(WIDTHS, dim=-1)]
    buffer = adjacent(*(parts[index] for index in order))
    inputs = [buffer[order.index(index)].copy_(torch.randn_like(parts[index])) for index in range(3)]
    inputs[2] = inputs[2].clone() if order == (0, 1, 2) else inputs[2]
    wanted = torch.cat([item.transpose(1, 2).flatten(2) for item in inputs], dim=-1)
    assert torch.equal(gradient_of(x, inputs), wanted)


def test_it_can_be_differentiated_twice() -> None:
    def cubes(x: Tensor) -> Tensor:
        a, b, c = split_heads(x, HEADS, 4)
        return torch.cat((c**3, a**3, b**2), dim=1)

    assert torch.autograd.gradgradcheck(cubes, torch.randn(1, 2, 16, dtype=torch.float64, requires_grad=True))
