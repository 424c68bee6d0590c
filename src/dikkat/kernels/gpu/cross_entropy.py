"""Softmax, loss and gradient of a chunk of logits in one kernel: read twice, once from cache, and written once."""

from __future__ import annotations

from typing import Any

import torch
import triton
from jaxtyping import Float, Int
from torch import Tensor
from triton import language as tl

_LOWEST = tl.constexpr(-3.0e38)
"""Below every logit, and finite, so that differences of it are."""


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _smoothed_softmax(
    logits: Any, targets: Any, losses: Any, likelihoods: Any, entries: Any, smoothing: Any, BLOCK: tl.constexpr
) -> None:
    row = tl.program_id(0)
    # a chunk may have more entries than 32 bits count
    logits += row.to(tl.int64) * entries
    target = tl.load(targets + row)
    column = tl.arange(0, BLOCK)
    top = tl.full([BLOCK], _LOWEST, dtype=tl.float32)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    linear = tl.zeros([BLOCK], dtype=tl.float32)
    wanted = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, entries, BLOCK):
        here = start + column
        inside = here < entries
        x = tl.load(logits + here, mask=inside, other=0.0).to(tl.float32)
        higher = tl.where(inside, tl.maximum(top, x), top)
        total = total * tl.exp(top - higher) + tl.exp(tl.where(inside, x - higher, float("-inf")))
        top = higher
        linear += x
        wanted += tl.where(here == target, x, 0.0)
    highest = tl.max(top, axis=0)
    log_sum = highest + tl.log(tl.sum(total * tl.exp(top - highest), axis=0))
    # a target outside has no loss, and what comes of it is seen as not finite
    is_known = (target >= 0) & (target < entries)
    likelihood = tl.where(is_known, log_sum - tl.sum(wanted, axis=0), float("nan"))
    mean = tl.sum(linear, axis=0) / entries - log_sum
    tl.store(likelihoods + row, likelihood)
    tl.store(losses + row, (1.0 - smoothing) * likelihood - smoothing * mean)
    even = smoothing / entries
    for start in range(0, entries, BLOCK):
        here = start + column
        inside = here < entries
        x = tl.load(logits + here, mask=inside, other=0.0).to(tl.float32)
        gradient = tl.exp(x - log_sum) - even - tl.where(here == target, 1.0 - smoothing, 0.0)
        tl.store(logits + here, gradient.to(logits.dtype.element_ty), mask=inside)


def smoothed_softmax(
    logits: Float[Tensor, "N V"], targets: Int[Tensor, "N"], smoothing: float
) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
    """Turn dense logits in place into the gradient of the smoothed loss; returns loss and likelihood of each row.

    Both are float32, and not a number for a target outside of the vocabulary.
    """
    losses, likelihoods = torch.empty(2, logits.shape[0], dtype=torch.float32, device=logits.device)
    if len(logits):
        block = min(4096, triton.next_power_of_2(logits.shape[1]))
        _smoothed_softmax[(len(logits),)](
            logits, targets, losses, likelihoods, logits.shape[1], smoothing, BLOCK=block, num_warps=8
        )
    return losses, likelihoods
