"""Token embedding, by default scaled by the square root of the width; its matrix may also be the output projection."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dikkat.kernels.embedding import embedding_rows
from dikkat.kernels.linear import linear


class TokenEmbedding(nn.Module):
    """An embedding whose rows are multiplied by sqrt(D) (Vaswani et al. 2017, section 3.4), unless not `scaled`.

    A `zero_row` is zero, and training leaves it so.
    """

    def __init__(self, vocab_size: int, model_dim: int, *, scaled: bool = True, zero_row: int | None = None) -> None:
        super().__init__()
        self.zero_row = zero_row
        self.scale = math.sqrt(model_dim) if scaled else 1.0
        self.weight = nn.Parameter(torch.empty(vocab_size, model_dim))
        nn.init.normal_(self.weight, std=model_dim**-0.5)
        if zero_row is not None:
            nn.init.zeros_(self.weight[zero_row])

    def forward(self, tokens: Int[Tensor, "*rows"]) -> Float[Tensor, "*rows D"]:
        """Look up the rows of tokens."""
        rows = embedding_rows(self.weight, tokens)
        return rows * self.scale

    def project(self, hidden: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows V"]:
        """Compute logits by the same matrix (Press and Wolf 2017), unscaled."""
        return linear(hidden, self.weight)
