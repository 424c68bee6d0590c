"""Attention as pure functions: a slow readable reference that returns its weights, and a fused one that refuses to.

Masks are boolean, `True` = may attend, broadcastable to `(B, H, T, S)`. A query that may attend to nothing gets zero
weights, a zero output and finite gradients, in both functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from dikkat.nn.dropout import dropout as drop
from dikkat.nn.explicit import explicit_attention

Score = Literal["dot", "additive"] | Callable[[Tensor, Tensor], Tensor]
"""How a query is compared with a key: a name, or a function of `(..., T, K)` and `(..., S, K)` to `(..., T, S)`."""

EXPLICIT_LIMIT = 128 * 128
"""Up to so many weights (T x S) two explicit products beat PyTorch's fused kernel on a CPU: its backward costs 47 ms
at training shapes where the products cost under 1 ms (docs/log.md)."""


def attention(
    query: Float[Tensor, "... T K"],
    key: Float[Tensor, "... S K"],
    value: Float[Tensor, "... S E"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    score: Score = "dot",
    beta: float | None = None,
    hard: bool = False,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "... T E"], Float[Tensor, "... T S"]]:
    """Reference attention: scores, weights, weighted sum (Vaswani et al. 2017, section 3.2.1).

    `beta` is the inverse temperature that multiplies the scores; left out, it is `1/sqrt(K)` for the dot score, read
    from the query's own width, and 1 for the others. `hard=True` gives one-hot weights at the highest score, the lowest
    index on a tie. `dropout` is the probability of dropping a weight. `"additive"` sums `tanh(q + k)` over the width
    (Bahdanau et al. 2015); its projections are the caller's.

    Returns the output and the weights, which are the ones used: after dropout. Raises `ValueError` if query and key
    differ in width.
    """
    scores = attention_scores(query, key, score)
    weights = attention_weights(scores, mask, beta=_inverse_temperature(query, score, beta), hard=hard)
    weights = drop(weights, dropout).to(value.dtype)
    # (..., T, S) x (..., S, E) -> (..., T, E)
    return weights @ value, weights


def attention_scores(
    query: Float[Tensor, "... T K"], key: Float[Tensor, "... S K"], score: Score = "dot"
) -> Float[Tensor, "... T S"]:
    """Compare every query with every key, before temperature and mask; statistics in at least float32."""
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"query and key must have the same width, but query has {query.shape[-1]} and key has {key.shape[-1]}"
        )
    query, key = _at_least_float32(query), _at_least_float32(key)
    if callable(score):
        return score(query, key)
    if score == "dot":
        return query @ key.transpose(-2, -1)
    if score == "additive":
        # (..., T, 1, K) + (..., 1, S, K) -> (..., T, S)
        return torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)).sum(-1)
    raise ValueError(f'score must be "dot", "additive" or a callable, not {score!r}')


def attention_weights(
    scores: Float[Tensor, "... T S"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    beta: float = 1.0,
    hard: bool = False,
) -> Float[Tensor, "... T S"]:
    """Turn scores into weights: every row that may attend sums to one, the others are zero.

    Raises `TypeError` for a mask that is not boolean.
    """
    scores = _at_least_float32(scores) * beta
    if mask is not None:
        _refuse_numbers(mask)
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    # argmax returns the first of equal maxima
    weights = _one_hot(scores) if hard else torch.softmax(scores, dim=-1)
    return weights if mask is None else weights.masked_fill(~mask, 0.0)


def fused_attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S E"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    beta: float | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T E"]:
    """Fast soft attention with the dot score; it gives no weights: those come from the recorder.

    On a CPU short sequences take two explicit products in the tensors' own type, all others PyTorch's fused kernel.
    Raises `TypeError` for a mask that is not boolean.
    """
    if mask is not None:
        _refuse_numbers(mask)
    beta = _inverse_temperature(query, "dot", beta)
    on_short_cpu_rows = query.device.type == "cpu" and query.shape[-2] * key.shape[-2] <= EXPLICIT_LIMIT
    if on_short_cpu_rows or (dropout > 0.0 and query.device.type == "cpu"):
        return explicit_attention(query, key, value, mask, beta, dropout)
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, scale=beta)
    if mask is None:
        return output
    return output.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)


def _refuse_numbers(mask: Tensor) -> None:
    # PyTorch's kernel would add a float mask to the scores, and nothing here ever does
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be boolean (True = may attend), not {mask.dtype}")


def _one_hot(scores: Float[Tensor, "... T S"]) -> Float[Tensor, "... T S"]:
    winners = scores.argmax(dim=-1, keepdim=True)
    return torch.zeros_like(scores).scatter(-1, winners, 1.0)


def _inverse_temperature(query: Tensor, score: Score, beta: float | None) -> float:
    if beta is not None:
        return beta
    return 1.0 / math.sqrt(query.shape[-1]) if score == "dot" else 1.0


def _at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor
