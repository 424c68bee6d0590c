"""Attention as pure functions: a slow readable reference that returns its weights, and a fused one.

Masks are boolean, `True` = may attend, broadcastable to `(B, H, T, S)`. A query that may attend to nothing gets zero
weights, a zero output and finite gradients, in both functions.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dikkat.kernels.attention import soft_attention
from dikkat.kernels.rotary import Rotation, apply_rotary
from dikkat.nn.checks import (
    check_fits,
    check_mask,
    check_positions,
    check_same_length,
    check_same_width,
    check_sequences,
    mask_for,
)
from dikkat.nn.layers import dropout as drop

# Selection rules, which turn a row of scores into a row of weights: spread softly, or on one key alone.


Selection = Literal["soft", "argmax", "straight_through", "gumbel"]
"""Softmax, or one-hot weights: by argmax, by argmax with the gradient of softmax, or by a draw with that gradient."""


def soft(scores: Float[Tensor, "... T S"]) -> Float[Tensor, "... T S"]:
    """Softmax: all keys, in proportion to the exponential of their score."""
    return torch.softmax(scores, dim=-1)


def argmax(scores: Float[Tensor, "... T S"]) -> Float[Tensor, "... T S"]:
    """One-hot at the highest score, the lowest index on a tie; no gradient reaches the scores."""
    # argmax returns the first of equal maxima
    winners = scores.argmax(dim=-1, keepdim=True)
    return torch.zeros_like(scores).scatter(-1, winners, 1.0)


def straight_through(scores: Float[Tensor, "... T S"]) -> Float[Tensor, "... T S"]:
    """One-hot at the highest score forwards, the gradient of softmax backwards (Bengio et al. 2013)."""
    spread = soft(scores)
    # the bracket is exactly zero, so that the sum stays exactly one-hot
    return argmax(scores) + (spread - spread.detach())


def gumbel(scores: Float[Tensor, "... T S"]) -> Float[Tensor, "... T S"]:
    """One key drawn with the probability that softmax gives it; backwards the relaxed draw (Jang et al. 2017, 2.2).

    The draw is a pure function of PyTorch's generator.
    """
    # -log of an exponential variable is a Gumbel variable
    noise = -torch.empty_like(scores).exponential_().log()
    return straight_through(scores + noise)


_RULES: dict[str, Callable[[Tensor], Tensor]] = {
    "soft": soft,
    "argmax": argmax,
    "straight_through": straight_through,
    "gumbel": gumbel,
}


def selection_rule(name: str) -> Callable[[Tensor], Tensor]:
    """The rule of that name. Raises `ValueError` for an unknown one."""
    if name not in _RULES:
        raise ValueError(f"selection must be one of {', '.join(_RULES)}, not {name!r}")
    return _RULES[name]


Score = Literal["scaled_dot", "dot", "additive"] | Callable[[Tensor, Tensor], Tensor]
"""How a query is compared with a key: a name, or a function of `(..., T, K)` and `(..., S, K)` to `(..., T, S)`.

The two dot scores differ in the default inverse temperature alone: `1/sqrt(K)`, or 1."""


def attention(
    query: Float[Tensor, "... T K"],
    key: Float[Tensor, "... S Kk"],
    value: Float[Tensor, "... S E"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    score: Score = "scaled_dot",
    beta: float | None = None,
    hard: bool = False,
    selection: Selection = "soft",
    bias: Float[Tensor, "..."] | None = None,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "... T E"], Float[Tensor, "... T S"]]:
    """Compute reference attention: scores, weights, weighted sum (Vaswani et al. 2017, section 3.2.1).

    `beta` is the inverse temperature that multiplies the scores; left out, it is `1/sqrt(K)` for the scaled dot score,
    read from the query's own width, and 1 for the others. `bias`, broadcastable to (..., T, S), is added after it.
    `hard=True`, or the `selection` "argmax", gives one-hot weights at the highest score, the lowest index on a tie;
    see `Selection` for the others. `dropout` is the probability of dropping a weight. `"additive"` sums `tanh(q + k)`
    over the width (Bahdanau et al. 2015); its projections are the caller's.

    Returns the output and the weights, which are the ones used: after dropout. Raises `ValueError` for sequences
    without positions, values of another length than the keys, a query and a key of two widths under a named score, and
    a mask or bias that does not fit; `TypeError` for a mask that is not boolean.
    """
    check_same_length(key, value)
    scores, beta = attention_scores(query, key, score), inverse_temperature(query, score, beta)
    weights = attention_weights(scores, mask, beta=beta, hard=hard, selection=selection, bias=bias)
    weights = drop(weights, dropout).to(value.dtype)
    # (..., T, S) x (..., S, E) -> (..., T, E)
    return weights @ value, weights


def attention_scores(
    query: Float[Tensor, "... T K"], key: Float[Tensor, "... S Kk"], score: Score = "scaled_dot"
) -> Float[Tensor, "... T S"]:
    """Compare every query with every key, before temperature and mask; statistics in at least float32.

    Raises `ValueError` for an unknown name, sequences without positions, and where a named score meets two widths.
    """
    check_positions(query, key)
    if callable(score):
        return score(_at_least_float32(query), _at_least_float32(key))
    check_same_width(query, key)
    query, key = _at_least_float32(query), _at_least_float32(key)
    if score in ("scaled_dot", "dot"):
        return query @ key.transpose(-2, -1)
    if score == "additive":
        # (..., T, 1, K) + (..., 1, S, K) -> (..., T, S)
        return torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)).sum(-1)
    raise ValueError(f'score must be "scaled_dot", "dot", "additive" or a callable, not {score!r}')


def attention_weights(
    scores: Float[Tensor, "... T S"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    beta: float = 1.0,
    hard: bool = False,
    selection: Selection = "soft",
    bias: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "... T S"]:
    """Turn scores into weights: every row that may attend sums to one, the others are zero; see `attention`.

    Raises `TypeError` for a mask that is not boolean and `ValueError` for a mask or bias that does not fit the scores.
    """
    scores = _at_least_float32(scores) * beta
    if bias is not None:
        check_fits("bias", bias, scores.shape)
        scores = scores + bias
    choose = selection_rule("argmax" if hard else selection)
    if mask is None:
        return choose(scores)
    hidden = ~mask_for(scores, mask)
    # in place: the product with beta is ours alone
    weights = choose(scores.masked_fill_(hidden, torch.finfo(scores.dtype).min))
    # a gradient needs the weights as they are
    return weights.masked_fill(hidden, 0.0) if weights.requires_grad else weights.masked_fill_(hidden, 0.0)


def fused_attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S E"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    beta: float | None = None,
    bias: Float[Tensor, "..."] | None = None,
    dropout: float = 0.0,
    rotation: Rotation | None = None,
) -> Float[Tensor, "B H T E"]:
    """Compute soft attention with the scaled dot score fast (Vaswani et al. 2017, section 3.2.1).

    For its weights see `fused_attention_with_weights`; `kernels.attention.soft_attention` says which kernel computes
    what. `bias`, broadcastable to (B, H, T, S), is added to the scaled scores. A `rotation` first turns query and key,
    which then have one length. Raises `TypeError` for a mask that is not boolean, and `ValueError` for sequences
    without positions or that do not belong together, and for a mask or bias that does not fit.
    """
    beta = _checked_call(query, key, value, mask, beta, rotation)
    if bias is not None:
        check_fits("bias", bias, (*query.shape[:-1], key.shape[-2]))
    return soft_attention(query, key, value, mask, beta, bias=bias, dropout=dropout, rotation=rotation)[0]


def fused_attention_with_weights(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S E"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    beta: float | None = None,
    dropout: float = 0.0,
    rotation: Rotation | None = None,
) -> tuple[Float[Tensor, "B H T E"], Float[Tensor, "B H T S"]]:
    """Compute `fused_attention`, the same to the bit, and its weights before dropout, outside the graph.

    Weights are in at least float32 and the caller's own: those that were used where the kernel has them so, else
    computed anew by the reference.
    Raises as `fused_attention` does.
    """
    beta = _checked_call(query, key, value, mask, beta, rotation)
    output, weights = soft_attention(
        query, key, value, mask, beta, dropout=dropout, rotation=rotation, with_weights=True
    )
    if weights is None:
        with torch.no_grad():
            query, key = apply_rotary(rotation, query, key)
            return output, attention_weights(attention_scores(query, key), mask, beta=beta)
    # the backward pass needs them as they are
    return output, weights.clone() if output.requires_grad else weights


def _checked_call(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, beta: float | None, rotation: Rotation | None
) -> float:
    """Check that query, key, value, mask and rotation belong together; returns the inverse temperature."""
    check_sequences(query, key, value)
    if rotation is not None:
        rotation.check(query, key)
    if mask is not None:
        check_mask(mask, (*query.shape[:-1], key.shape[-2]))
    return inverse_temperature(query, "scaled_dot", beta)


def inverse_temperature(query: Float[Tensor, "... T K"], score: Score, beta: float | None = None) -> float:
    """Return `beta` itself, or its default: `1/sqrt(K)` for the scaled dot score, 1 for the others."""
    if beta is not None:
        return beta
    return 1.0 / math.sqrt(query.shape[-1]) if score == "scaled_dot" else 1.0


def _at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor
