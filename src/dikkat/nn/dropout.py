"""Dropout by 16-bit draws: on a CPU made where they are needed, by all threads, and just as reproducible.

The mask is a pure function of PyTorch's generator, which training seeds from (seed, step, micro-step, rank).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dikkat.native import kernels
from dikkat.native.kernels import LEVELS
from dikkat.nn.draws import drawn_seed, levels_of, random_levels


def drop_threshold(probability: float) -> int:
    """The level below which a 16-bit draw drops an entry: the probability in multiples of 2**-16."""
    return min(round(probability * LEVELS), LEVELS - 1)


def mask_of(levels: Tensor, threshold: int, dtype: torch.dtype) -> Tensor:
    """0 where a draw lies below the threshold, else the scale that keeps the mean at exactly 1."""
    return (levels >= threshold - LEVELS // 2).to(dtype).mul_(LEVELS / (LEVELS - threshold))


def keep_mask(like: Tensor, probability: float) -> Tensor:
    """A tensor of the shape and type of `like`: 0 with `probability`, else `1 / (1 - probability)`.

    The probability is rounded to a multiple of 2**-16; the scale uses the rounded one.
    """
    return mask_of(random_levels(like), drop_threshold(probability), like.dtype)


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
        if not self.training or self.probability == 0.0:
            return x
        if kernels.runs_natively(x):
            return _AddDropped.apply(None, x, drawn_seed(), drop_threshold(self.probability))
        return dropout(x, self.probability)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """`residual + dropout(x)` in one pass over memory."""
        if not self.training or self.probability == 0.0:
            return residual + x
        if kernels.runs_natively(residual, x):
            return _AddDropped.apply(residual, x, drawn_seed(), drop_threshold(self.probability))
        return torch.addcmul(residual, x, keep_mask(x, self.probability))

    def extra_repr(self) -> str:
        return f"probability={self.probability}"


class _AddDropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, residual: Tensor | None, x: Tensor, seed: int, threshold: int) -> Tensor:
        ctx.seed, ctx.threshold = seed, threshold
        return kernels.add_dropped(residual, x, seed, threshold)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, None, None]:
        rest = gradient if ctx.needs_input_grad[0] else None
        if torch.is_grad_enabled():  # somebody differentiates twice, which a kernel cannot
            mask = mask_of(levels_of(ctx.seed, gradient), ctx.threshold, gradient.dtype)
            return rest, gradient * mask, None, None
        return rest, kernels.add_dropped(None, gradient, ctx.seed, ctx.threshold), None, None
