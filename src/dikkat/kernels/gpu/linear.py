"""Linear layers in training on a GPU: products by PyTorch, and the gradients of weight and bias where they belong.

Gradients go to the buffers of their parameters, and the sum of a bias is added up in the pass that applies the ReLU.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from dikkat.kernels.calls import needs_backward
from dikkat.kernels.gpu.choice import LAST_OFFSET, runs_triton
from dikkat.kernels.gradient_buffer import Buffers, claim, grad_buffer


def takes(x: Tensor, weight: Tensor, bias: Tensor) -> bool:
    """Tell whether `trained_linear` takes these: in training, in one type, on a GPU, with no huge output."""
    entries = x.shape[:-1].numel() * weight.shape[0]
    return needs_backward(weight, bias) and entries <= LAST_OFFSET and runs_triton(x, weight, bias)


def trained_linear(
    x: Float[Tensor, "*rows D"],
    weight: Float[Tensor, "E D"],
    bias: Float[Tensor, "E"],
    *,
    rows: slice | None = None,
    relu: bool = False,
) -> Float[Tensor, "*rows R"]:
    """Compute `x weight^T + bias` of what `takes` takes, and with `relu` its ReLU; `rows` are those of both.

    Differentiable once.
    """
    buffers: Buffers = (grad_buffer(weight), grad_buffer(bias))
    if rows is not None:
        weight, bias = weight[rows], bias[rows]
    output: Tensor = _TrainedLinear.apply(x.reshape(-1, x.shape[-1]), weight, bias, relu, buffers, rows)
    return output.view(*x.shape[:-1], output.shape[-1])


class _TrainedLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, relu: bool, buffers: Buffers, rows: slice | None
    ) -> Tensor:
        if relu:
            output: Tensor = torch._addmm_activation(bias, x, weight.t())
        else:
            output = torch.addmm(bias, x, weight.t())
        ctx.save_for_backward(x, weight, output if relu else None)
        ctx.buffers, ctx.rows = buffers, rows
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from dikkat.kernels.gpu.columns import sum_gated_rows, sum_rows

        x, weight, rectified = ctx.saved_tensors
        gradient = gradient.contiguous()
        memory = [claim(buffer, ctx.rows) for buffer in ctx.buffers]
        grad_bias = weight.new_empty(weight.shape[0]) if memory[1] is None else memory[1]
        if rectified is None:
            sum_rows(gradient, grad_bias)
        else:
            gradient = sum_gated_rows(gradient, rectified, grad_bias)
        grad_x = gradient @ weight if ctx.needs_input_grad[0] else None
        grad_weight = torch.mm(gradient.t(), x, out=memory[0])
        gradients = grad_weight, grad_bias
        own = (None if kept is not None else item for kept, item in zip(memory, gradients, strict=True))
        return grad_x, *own, None, None, None
