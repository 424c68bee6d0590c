"""Learned scores: how a query is compared with a key where a dot product is not enough.

Both are scores that `attention` and `MultiHeadAttention` take as a callable; without `num_heads` they compare one set
of queries with one set of keys, with it each head has parameters of its own.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dikkat.nn.checks import check_width


class AdditiveScore(nn.Module):
    """`v . tanh(q + k)` (Bahdanau et al. 2015, appendix A.1.2); the projections of q and k come before it.

    Query `(..., T, K)` and key `(..., S, K)` to `(..., T, S)`; with `num_heads` the axis before T is H. All T x S x K
    sums are held at once. Raises `ValueError` for a query or key of another width.
    """

    def __init__(self, width: int, num_heads: int | None = None) -> None:
        super().__init__()
        self.width = width
        self.heads = () if num_heads is None else (num_heads,)
        # flat, so that an optimizer takes it for the vectors that it is
        self.vector = nn.Parameter(torch.empty((num_heads or 1) * width))
        nn.init.uniform_(self.vector, -(width**-0.5), width**-0.5)

    def forward(self, query: Float[Tensor, "... T K"], key: Float[Tensor, "... S K"]) -> Float[Tensor, "... T S"]:
        check_width("query", query, self.width)
        check_width("key", key, self.width)
        # (..., T, 1, K) + (..., 1, S, K) -> (..., T, S, K)
        sums = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))
        # (H * K,) -> (H, 1, K, 1), or (1, K, 1) without heads
        vector = self.vector.view(*self.heads, 1, self.width, 1).to(sums.dtype)
        return (sums @ vector).squeeze(-1)


class BilinearScore(nn.Module):
    """`q W k`, the "general" score (Luong et al. 2015, section 3.1); it also joins queries and keys of two widths.

    Query `(..., T, Kq)` and key `(..., S, Kk)` to `(..., T, S)`; with `num_heads` the axis before T is H. Raises
    `ValueError` for a query or key of another width.
    """

    def __init__(self, query_width: int, key_width: int | None = None, num_heads: int | None = None) -> None:
        super().__init__()
        key_width = query_width if key_width is None else key_width
        self.shape = (*(() if num_heads is None else (num_heads,)), query_width, key_width)
        self.weight = nn.Parameter(torch.empty((num_heads or 1) * query_width, key_width))
        bound = (6.0 / (query_width + key_width)) ** 0.5
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, query: Float[Tensor, "... T Kq"], key: Float[Tensor, "... S Kk"]) -> Float[Tensor, "... T S"]:
        check_width("key", key, self.shape[-1])
        return self.project_query(query) @ key.transpose(-2, -1)

    def project_query(self, query: Float[Tensor, "... T Kq"]) -> Float[Tensor, "... T Kk"]:
        """`q W`: from here on the score is a dot product, which every fast path computes."""
        check_width("query", query, self.shape[-2])
        return query @ self.weight.view(self.shape).to(query.dtype)
