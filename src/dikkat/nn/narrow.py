"""Linear layers with few weights in training: native products that read the tensors as they lie."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from dikkat.native.narrow_linear import gradients, is_narrow, linear
from dikkat.nn.query_blocks import learns


def learns_narrowly(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether `narrow_linear` takes these: there will be a backward pass, and there is a kernel."""
    return learns(x, weight, bias) and is_narrow(x, weight)


def narrow_linear(
    x: Float[Tensor, "*rows D"],
    weight: Float[Tensor, "E D"],
    bias: Float[Tensor, "E"] | None,
    *,
    rectifies: bool = False,
) -> Float[Tensor, "*rows E"]:
    """`x weight^T + bias`, and its ReLU where it `rectifies`; a row has the same bits in any company."""
    found: Tensor = _NarrowLinear.apply(x.reshape(-1, x.shape[-1]), weight, bias, rectifies)
    return found.view(*x.shape[:-1], weight.shape[0])


class _NarrowLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, rectifies: bool) -> Tensor:
        given = x.contiguous(), weight.contiguous(), None if bias is None else bias.contiguous()
        output = linear(*given, rectifies=rectifies)
        ctx.save_for_backward(x, weight, output if rectifies else None)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        x, weight, rectified = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():  # somebody differentiates twice, which a kernel cannot
            flow = gradient if rectified is None else gradient * (rectified > 0)
            return flow @ weight, flow.t() @ x, flow.sum(0) if wanted[2] else None, None
        return *gradients(gradient.contiguous(), x.contiguous(), weight.contiguous(), rectified, wanted), None
