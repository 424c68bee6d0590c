"""Look-up of embedding rows, with a gradient that bfloat16 does not lose."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from dikkat.kernels.calls import needs_backward


def embedding_rows(weight: Float[Tensor, "V D"], tokens: Int[Tensor, "*rows"]) -> Float[Tensor, "*rows D"]:
    """Take rows of `weight`; in bfloat16 their gradient is summed in float32, and on a GPU in the order of the tokens.

    A frequent token occurs hundreds of times in a batch, and bfloat16 loses addends after the first few dozen. The
    gradient that PyTorch has on a GPU differs from run to run in float32 once there are some thousand tokens.
    """
    if (weight.dtype == torch.bfloat16 or weight.device.type != "cpu") and needs_backward(weight):
        return _EmbeddingFunction.apply(weight, tokens)
    return F.embedding(tokens, weight)


class _EmbeddingFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, tokens: Tensor) -> Tensor:
        ctx.save_for_backward(tokens)
        ctx.shape = weight.shape
        return F.embedding(tokens, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (tokens,) = ctx.saved_tensors
        sums = torch.promote_types(gradient.dtype, torch.float32)
        total = torch.zeros(ctx.shape, dtype=sums, device=gradient.device)
        rows = gradient.reshape(-1, gradient.shape[-1]).to(sums)
        if gradient.device.type == "cpu":
            total.index_add_(0, tokens.reshape(-1), rows)
        else:
            # sorted by token first; index_add_ adds atomically there, in any order
            total.index_put_((tokens.reshape(-1),), rows, accumulate=True)
        return total.to(gradient.dtype), None
