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
                logits.div_(total).scatter_add_(1, wanted, logits.new_full(wanted.shape, smoothing - 1.0))
                gradient[chunk] = logits.sub_(smoothing / vocab_size) if smoothing else logits
        ctx.save_for_backward(hidden, weight, gradient)
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None]:
        hidden, weight, gradient = ctx.saved_tensors
        scale = scale.to(hidden.dtype)
        return gradient @ weight * scale, gradient.t() @ hidden * scale, None, None
