"""Label-smoothed cross-entropy over the vocabulary, computed with its gradient in chunks that stay in cache.

The (tokens x vocabulary) matrix of float32 logits is the largest of a small model; it is never built.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK_ENTRIES = 1 << 21
"""Logits in one chunk: 8 MiB of float32."""


def smoothed_cross_entropy(
    hidden: Float[Tensor, "N D"], weight: Float[Tensor, "V D"], targets: Int[Tensor, "N"], smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sum over tokens of the smoothed loss, and of the plain negative log-likelihood (no gradient), in nats.

    The smoothed target puts `1 - smoothing` on the right entry and spreads `smoothing` evenly over all V (Szegedy et
    al. 2016, section 7). Statistics are float32; the products run in the type of `hidden`.
    """
    loss, likelihood = _SmoothedCrossEntropy.apply(hidden, weight, targets, smoothing)
    return loss, likelihood


class _SmoothedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        vocab_size = weight.shape[0]
        keep_gradient = any(ctx.needs_input_grad)
        gradient = hidden.new_empty(hidden.shape[0], vocab_size) if keep_gradient else None
        loss = torch.zeros((), dtype=torch.float32, device=hidden.device)
        likelihood = torch.zeros_like(loss)
        column_sum = weight.float().sum(0)
        rows = max(16, CHUNK_ENTRIES // vocab_size)
        for start in range(0, hidden.shape[0], rows):
            chunk = slice(start, start + rows)
            wanted = targets[chunk, None]
            logits = (hidden[chunk] @ weight.t()).float()
            right = logits.gather(1, wanted)
            largest = logits.amax(dim=-1, keepdim=True)
            # in place: from here on `logits` holds exp(logits - largest)
            total = logits.sub_(largest).exp_().sum(dim=-1, keepdim=True)
            normalizer = total.log() + largest
            likelihood += (normalizer - right).sum()
            even = normalizer[:, 0] - hidden[chunk].float() @ column_sum / vocab_size
            loss += (normalizer - right).sum() * (1.0 - smoothing) + even.sum() * smoothing
            if gradient is not None:
                # probabilities, cast as they are written; only the right entry differs by more than a constant
                torch.mul(logits, total.reciprocal(), out=gradient[chunk])
                of_right = (right - normalizer).exp() - (1.0 - smoothing)
                gradient[chunk].scatter_(1, wanted, of_right.to(gradient.dtype))
        ctx.save_for_backward(hidden, weight, gradient, column_sum)
        ctx.floor = smoothing / vocab_size
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None]:
        hidden, weight, gradient, column_sum = ctx.saved_tensors
        # the even part of the target is the same number everywhere, so its share of both products has rank one
        of_hidden = gradient @ weight - ctx.floor * column_sum.to(hidden.dtype)
        of_weight = gradient.t() @ hidden - ctx.floor * hidden.float().sum(0).to(hidden.dtype)
        scale = scale.to(hidden.dtype)
        return of_hidden * scale, of_weight * scale, None, None
