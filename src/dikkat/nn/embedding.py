"""Token embedding, by default scaled by the square root of the width; its matrix may also be the output projection."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dikkat.nn.few_rows import project


class TokenEmbedding(nn.Module):
    """Rows of a (V, D) matrix times sqrt(D) (Vaswani et al. 2017, section 3.4), or, not `scaled`, as they are."""

    def __init__(self, vocab_size: int, model_dim: int, *, scaled: bool = True) -> None:
        super().__init__()
        self.scale = math.sqrt(model_dim) if scaled else 1.0
        self.weight = nn.Parameter(torch.empty(vocab_size, model_dim))
        nn.init.normal_(self.weight, std=model_dim**-0.5)

    def forward(self, tokens: Int[Tensor, "*rows"]) -> Float[Tensor, "*rows D"]:
        if self.weight.dtype == torch.bfloat16 and torch.is_grad_enabled():
            rows = _LookUp.apply(self.weight, tokens)
        else:
            rows = F.embedding(tokens, self.weight)
        return rows * self.scale

    def project(self, hidden: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows V"]:
        """Logits by the same matrix (Press and Wolf 2017), unscaled."""
        return project(hidden, self.weight)


class _LookUp(torch.autograd.Function):
    """Look-up whose gradient is summed in float32.

    A frequent token occurs hundreds of times in a batch, and bfloat16 loses addends after the first few dozen.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, tokens: Tensor) -> Tensor:
        ctx.save_for_backward(tokens)
        ctx.shape = weight.shape
        return F.embedding(tokens, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (tokens,) = ctx.saved_tensors
        total = torch.zeros(ctx.shape, dtype=torch.float32, device=gradient.device)
        total.index_add_(0, tokens.reshape(-1), gradient.reshape(-1, gradient.shape[-1]).float())
        return total.to(gradient.dtype), None
