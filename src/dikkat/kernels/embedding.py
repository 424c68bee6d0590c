"""Look-up of embedding rows, with a gradient that bfloat16 does not lose."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from dikkat.kernels.calls import needs_backward


def embedding_rows(weight: Float[Tensor, "V D"], tokens: Int[Tensor, "*rows"]) -> Float[Tensor, "*rows D"]:
    """Take rows of `weight`; in bfloat16 their gradient is summed in float32.

    A frequent token occurs hundreds of times in a batch, and bfloat16 loses addends after the first few dozen.
    """
    if weight.dtype == torch.bfloat16 and needs_backward(weight):
        return _LookUp.apply(weight, tokens)
    return F.embedding(tokens, weight)


class _LookUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, tokens: Tensor) -> Tensor:
        ctx.save_for_backward(tokens)
        ctx.shape = weight.shape
        return F.embedding(tokens, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (tokens,) = ctx.saved_tensors
        if gradient.device.type != "cpu":
            # sorted by token, which atomic additions are not, and added up in float32 too
            return torch.ops.aten.embedding_dense_backward(gradient, tokens, ctx.shape[0], -1, False), None
        total = torch.zeros(ctx.shape, dtype=torch.float32, device=gradient.device)
        total.index_add_(0, tokens.reshape(-1), gradient.reshape(-1, gradient.shape[-1]).float())
        return total.to(gradient.dtype), None
