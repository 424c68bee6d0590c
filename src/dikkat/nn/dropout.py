"""Dropout from random bytes: on a CPU ten times cheaper than PyTorch's serial `bernoulli_`, and just as reproducible.

The mask is a pure function of PyTorch's generator, which training seeds from (seed, step, micro-step, rank).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_LEVELS = 1 << 16


def keep_mask(like: Tensor, probability: float) -> Tensor:
    """A tensor of the shape and type of `like`: 0 with `probability`, else `1 / (1 - probability)`.

    The probability is rounded to a multiple of 2**-16; the scale uses the rounded one, so the mean stays exactly 1.
    """
    threshold = min(round(probability * _LEVELS), _LEVELS - 1)
    entries = like.numel()
    # one 64-bit draw makes four 16-bit ones; the range is given in full since the default leaves the sign bit out
    draws = torch.empty((entries + 3) // 4, dtype=torch.int64, device=like.device).random_(-(2**63), None)
    levels = draws.view(torch.int16)[:entries].view(like.shape)
    kept = levels >= threshold - _LEVELS // 2
    return kept.to(like.dtype).mul_(_LEVELS / (_LEVELS - threshold))


def dropout(x: Tensor, probability: float) -> Tensor:
    """Drop entries of `x` with `probability` and scale the rest to keep the mean (Srivastava et al. 2014).

    Raises `ValueError` for a probability outside [0, 1).
    """
    return x * keep_mask(x, probability) if checked_probability(probability) > 0.0 else x


def checked_probability(probability: float) -> float:
    """The probability itself. Raises `ValueError` if it lies outside [0, 1): at 1 nothing could keep the mean."""
    if not 0.0 <= probability < 1.0:
        raise ValueError(f"dropout probability must lie in [0, 1), not {probability}")
    return probability


class Dropout(nn.Module):
    """Dropout in training, identity in evaluation."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = checked_probability(probability)

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.probability) if self.training else x

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """`residual + dropout(x)` in one pass over memory."""
        if not self.training or self.probability == 0.0:
            return residual + x
        return torch.addcmul(residual, x, keep_mask(x, self.probability))

    def extra_repr(self) -> str:
        return f"probability={self.probability}"
