"""Scorers of a `MultiHeadAttention`: score, temperature, position bias and selection of its heads."""

import math
from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dikkat.kernels.rotary import Rotation, apply_rotary
from dikkat.nn.checks import check_same_length, check_sequences, check_width
from dikkat.nn.functional import (
    Score,
    Selection,
    attention_scores,
    attention_weights,
    fused_attention,
    fused_attention_with_weights,
    inverse_temperature,
    selection_rule,
)
from dikkat.nn.layers import checked_probability
from dikkat.nn.layers import dropout as drop
from dikkat.nn.masks import distances
from dikkat.nn.named_positions import ScoreBias

# Additive attention with its own projections, for queries and keys of any two widths.


class AdditiveAttention(nn.Module):
    """Attention with the weights `softmax(v . tanh(W_q q + W_k k))` over the keys (Bahdanau et al. 2015, section 3.1).

    `hidden_dim` is the width in which query and key meet; there is no temperature. `dropout` falls on the weights, in
    training only.
    """

    def __init__(
        self, query_dim: int, key_dim: int, hidden_dim: int, *, bias: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.query_projection = nn.Linear(query_dim, hidden_dim, bias=bias)
        self.key_projection = nn.Linear(key_dim, hidden_dim, bias=bias)
        self.score = AdditiveScore(hidden_dim)
        self.dropout = checked_probability(dropout)

    def forward(
        self,
        query: Float[Tensor, "*B T Dq"],
        key: Float[Tensor, "*B S Dk"],
        value: Float[Tensor, "*B S Dv"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*B T Dv"]:
        """Attend to the keys, which are also the values where no `value` is given.

        `mask` is boolean, True = may attend, broadcastable to (B, T, S), or (B, 1, T, S).

        Raises `ValueError` for a width or a mask that does not fit and `TypeError` for a mask that is not boolean.
        """
        value = key if value is None else value
        check_same_length(key, value)
        weights = self.weights(query, key, mask)
        return drop(weights, self.dropout if self.training else 0.0).to(value.dtype) @ value

    def weights(
        self, query: Float[Tensor, "*B T Dq"], key: Float[Tensor, "*B S Dk"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "*B T S"]:
        """Compute the weights before dropout; rows that may attend to nothing are zero."""
        check_width("query", query, self.query_projection.in_features)
        check_width("key", key, self.key_projection.in_features)
        scores = attention_scores(self.query_projection(query), self.key_projection(key), self.score)
        return attention_weights(scores, mask)


# Learned scores: how a query is compared with a key where a dot product is not enough.
#
# Both are scores that `attention` and `MultiHeadAttention` take as a callable; without `num_heads` they compare one set
# of queries with one set of keys, with it each head has parameters of its own.


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


class SoftcappedScore:
    """`cap tanh(beta q . k / cap)`, which no score exceeds (Gemma Team 2024, section 2)."""

    def __init__(self, cap: float, beta: float) -> None:
        self.cap, self.beta = cap, beta

    def __call__(self, query: Float[Tensor, "... T K"], key: Float[Tensor, "... S K"]) -> Float[Tensor, "... T S"]:
        return self.cap * torch.tanh(query @ key.transpose(-2, -1) * (self.beta / self.cap))


def log_buckets(away: Int[Tensor, "T S"], span: int, reach: int) -> Int[Tensor, "T S"]:
    """Return buckets -span ... span of signed distances: exact up to span / 2, then logarithmic up to `reach`.

    He et al. (2021) in the code of DeBERTa-v2.
    """
    middle = span // 2
    size = away.abs()
    far = torch.log(size.clamp_min(middle).double() / middle) / math.log((reach - 1) / middle) * (middle - 1)
    return torch.where(size <= middle, away, (torch.ceil(far - 1e-9).long() + middle) * away.sign())


class DisentangledScore(nn.Module):
    """`q . k + q . p[d] + k . r[d]` with learned vectors p and r of the distance d (He et al. 2021, section 3.1).

    There are 2 span vectors of each for a head, those of distances before and after. With a `reach` far distances share
    buckets, see `log_buckets`. Queries are as many as keys.
    """

    def __init__(self, num_heads: int, head_dim: int, span: int, reach: int | None = None) -> None:
        super().__init__()
        self.span, self.reach = span, reach
        self.position_key = nn.Parameter(torch.empty(num_heads, 2 * span, head_dim))
        self.position_query = nn.Parameter(torch.empty(num_heads, 2 * span, head_dim))
        nn.init.normal_(self.position_key, std=0.02)
        nn.init.normal_(self.position_query, std=0.02)

    def forward(self, query: Float[Tensor, "B H T K"], key: Float[Tensor, "B H S K"]) -> Float[Tensor, "B H T S"]:
        away = -distances(query.shape[-2], key.shape[-2], device=query.device)
        away = away if self.reach is None else log_buckets(away, self.span, self.reach)
        rows = (away + self.span).clamp(0, 2 * self.span - 1).expand(*query.shape[:2], -1, -1)
        # (B, H, T, K) x (H, K, 2 span) -> (B, H, T, 2 span) -> (B, H, T, S)
        by_query = (query @ self.position_key.transpose(-2, -1)).gather(-1, rows)
        by_key = (key @ self.position_query.transpose(-2, -1)).gather(-1, rows.transpose(-2, -1))
        return query @ key.transpose(-2, -1) + by_query + by_key.transpose(-2, -1)


HeadScore = Literal["scaled_dot", "dot", "additive", "bilinear"] | Callable[[Tensor, Tensor], Tensor]
"""A name, or a function (or module) of `(B, H, T, K)` and `(B, H, S, K)` to `(B, H, T, S)`."""

Attended = tuple[Tensor, Tensor]
"""Output (B, H, T, E) and weights (B, H, T, S)."""


class DotProductScorer:
    """Soft attention with a dot product: no parameters, and the fastest path there is.

    A `rotation` turns queries and keys first, which then have one length.
    """

    def __init__(self, score: Literal["scaled_dot", "dot"], beta: float | None) -> None:
        self.score: Score = score
        self.beta = 1.0 if beta is None and score == "dot" else beta

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float, rotation: Rotation | None = None
    ) -> Tensor:
        return fused_attention(q, k, v, mask, beta=self.beta, dropout=dropout, rotation=rotation)

    def with_weights(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float, rotation: Rotation | None = None
    ) -> Attended:
        """Compute the output and the weights it came from; see `AttentionScorer.with_weights`."""
        return fused_attention_with_weights(q, k, v, mask, beta=self.beta, dropout=dropout, rotation=rotation)

    def weights(self, q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
        """The weights before dropout, in at least float32."""
        return attention_weights(attention_scores(q, k), mask, beta=inverse_temperature(q, self.score, self.beta))


class AttentionScorer(nn.Module):
    """Every other combination of score, temperature, bias and selection.

    Additive and bilinear scores have parameters for each head. In evaluation a drawn selection takes the likeliest key,
    so that decoding repeats itself. A `rotation` turns queries and keys first, which then have one length.
    """

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        *,
        score: HeadScore = "scaled_dot",
        beta: float | None = None,
        selection: Selection = "soft",
        bias: ScoreBias | None = None,
    ) -> None:
        super().__init__()
        self.score: Score
        self.bilinear = BilinearScore(head_dim, num_heads=num_heads) if score == "bilinear" else None
        if score == "additive":
            self.score = AdditiveScore(head_dim, num_heads)
        else:
            # once the query is turned, a bilinear score is a dot product
            self.score = "dot" if score == "bilinear" else score
        self.beta, self.selection, self.bias = beta, selection, bias
        self.is_fused = selection == "soft" and not callable(self.score)

    def forward(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H S K"],
        v: Float[Tensor, "B H S E"],
        mask: Bool[Tensor, "..."] | None,
        dropout: float,
        rotation: Rotation | None = None,
    ) -> Float[Tensor, "B H T E"]:
        check_sequences(q, k, v)
        q, k = apply_rotary(rotation, q, k)
        if not self.is_fused:
            return self._used(q, k, v, mask, dropout)[0]
        q = self._scored_query(q)
        beta = inverse_temperature(q, self.score, self.beta)
        return fused_attention(q, k, v, mask, beta=beta, bias=self._bias(q * beta, k), dropout=dropout)

    def with_weights(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H S K"],
        v: Float[Tensor, "B H S E"],
        mask: Bool[Tensor, "..."] | None,
        dropout: float,
        rotation: Rotation | None = None,
    ) -> tuple[Float[Tensor, "B H T E"], Float[Tensor, "B H T S"]]:
        """Compute the output of `forward` and its weights (B, H, T, S) before dropout.

        The weights are in at least float32, outside the graph, and the caller's own.
        """
        check_sequences(q, k, v)
        q, k = apply_rotary(rotation, q, k)
        if self.is_fused:
            with torch.no_grad():
                weights = self.weights(q, k, mask)
            return self(q, k, v, mask, dropout), weights
        output, weights = self._used(q, k, v, mask, dropout)
        # the backward pass needs them as they are
        return output, weights.detach().clone()

    def weights(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"], mask: Bool[Tensor, "..."] | None
    ) -> Float[Tensor, "B H T S"]:
        """The weights before dropout, in at least float32; a drawn selection draws."""
        q = self._scored_query(q)
        beta = inverse_temperature(q, self.score, self.beta)
        scores = attention_scores(q, k, self.score)
        selection: Selection = "argmax" if self.selection == "gumbel" and not self.training else self.selection
        return attention_weights(scores, mask, beta=beta, selection=selection, bias=self._bias(q * beta, k))

    def _used(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float) -> Attended:
        weights = self.weights(q, k, mask)
        return drop(weights, dropout).to(v.dtype) @ v, weights

    def _scored_query(self, q: Tensor) -> Tensor:
        return q if self.bilinear is None else self.bilinear.project_query(q)

    def _bias(self, q: Tensor, k: Tensor) -> Tensor | None:
        return None if self.bias is None else self.bias(q, k.shape[-2])


def attention_scorer(
    num_heads: int, head_dim: int, score: HeadScore, beta: float | None, selection: Selection, bias: ScoreBias | None
) -> DotProductScorer | AttentionScorer:
    """The comparison of those choices, made once. Raises `ValueError` for an unknown score or selection."""
    if not callable(score) and score not in ("scaled_dot", "dot", "additive", "bilinear"):
        raise ValueError(f"score must be one of scaled_dot, dot, additive, bilinear, or a callable, not {score!r}")
    selection_rule(selection)
    if selection == "soft" and bias is None and (score == "scaled_dot" or score == "dot"):
        return DotProductScorer(score, beta)
    return AttentionScorer(num_heads, head_dim, score=score, beta=beta, selection=selection, bias=bias)
