"""Additive attention with its own projections, for queries and keys of any two widths."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor, nn

from dikkat.nn.checks import check_same_length, check_width
from dikkat.nn.dropout import checked_probability, dropout
from dikkat.nn.functional import attention_scores, attention_weights
from dikkat.nn.scorers import AdditiveScore


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
        return dropout(weights, self.dropout if self.training else 0.0).to(value.dtype) @ value

    def weights(
        self,
        query: Float[Tensor, "*B T Dq"],
        key: Float[Tensor, "*B S Dk"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*B T S"]:
        """Compute the weights before dropout; rows that may attend to nothing are zero."""
        check_width("query", query, self.query_projection.in_features)
        check_width("key", key, self.key_projection.in_features)
        scores = attention_scores(self.query_projection(query), self.key_projection(key), self.score)
        return attention_weights(scores, mask)
