"""Selection rules, which turn a row of scores into a row of weights: spread softly, or on one key alone.

Every rule takes scores `(..., T, S)` that already carry temperature, bias and mask (masked entries at the lowest finite
number), and gives weights of the same shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

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
