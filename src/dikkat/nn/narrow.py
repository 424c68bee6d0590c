"""Linear layers with few weights in training: native products that read the tensors as they lie."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from dikkat.native.narrow_linear import input_gradient, is_narrow, linear, weight_gradient
from dikkat.nn.query_blocks import learns


def learns_narrowly(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether `narrow_linear` takes these: there will be a backward pass, and there is a kernel."""
    return learns(x, weight, bias) and is_narrow(x, weight)


def narrow_linear(
    x: Float[Tensor, "*rows D"], weight: Float[Tensor, "E D"], bias: Float[Tensor, "E"] | None
) -> Float[Tensor, "*rows E"]:
    """`x weight^T + bias`; a row has the same bits in any company."""
    found: Tensor = _NarrowLinear.apply(x.reshape(-1, x.shape[-1]), weight, bias)
    return found.view(*x.shape[:-1], weight.shape[0])


class _NarrowLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return linear(x.contiguous(), weight.contiguous(), None if bias is None else bias.contiguous())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        if torch.is_grad_enabled():  # somebody differentiates twice, which a kernel cannot
            return gradient @ weight, gradient.t() @ x, gradient.sum(0) if of_bias else None
        given = gradient.contiguous(), x.contiguous(), weight.contiguous()
        found = input_gradient(*given) if of_x else None
        if not of_weight:
            return found, None, gradient.sum(0) if of_bias else None
        return found, *weight_gradient(*given, with_bias=of_bias)
