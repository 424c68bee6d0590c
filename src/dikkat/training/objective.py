"""Label-smoothed cross-entropy over the vocabulary, computed with its gradient in chunks that stay in cache.

The (tokens x vocabulary) matrix of float32 logits is the largest of a small model; it is never built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dikkat.native import kernels
from dikkat.native.quantized import pack, packed_linear, weight_gradient
from dikkat.nn.eight_bit import eight_bit_product

CHUNK_ENTRIES = 1 << 24
"""Logits in one chunk: 32 MiB of bfloat16. Fewer would stay nearer, but the weights' gradient is added once a chunk."""


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
    """Both gradients are made on the way forward, a chunk at a time, and only scaled on the way back."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        loss = torch.zeros((), dtype=torch.float32, device=hidden.device)
        likelihood = torch.zeros_like(loss)
        of_hidden, of_weight = torch.empty_like(hidden), torch.zeros_like(weight, dtype=torch.float32)
        rows = max(16, CHUNK_ENTRIES // weight.shape[0])
        space = hidden.new_empty(min(rows, hidden.shape[0]), weight.shape[0])
        to_logits, to_hidden, to_weight = _products(weight)
        for start in range(0, hidden.shape[0], rows):
            part, wanted = hidden[start : start + rows], targets[start : start + rows]
            logits = to_logits(part, space[: part.shape[0]])
            chunk_loss, chunk_likelihood = smoothed_softmax(logits, wanted, smoothing)
            loss += chunk_loss.sum()
            likelihood += chunk_likelihood.sum()
            if any(ctx.needs_input_grad):
                to_hidden(logits, of_hidden[start : start + rows])
                of_weight += to_weight(logits, part)
        ctx.save_for_backward(of_hidden, of_weight)
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None]:
        of_hidden, of_weight = ctx.saved_tensors
        return of_hidden * scale.to(of_hidden.dtype), (of_weight * scale).to(of_hidden.dtype), None, None


_Product = Callable[[Tensor, Tensor], Tensor]


def _products(weight: Tensor) -> tuple[_Product, _Product, _Product]:
    """From hidden states to logits, and from the gradient of these to that of those, into a tensor that is given; and
    from that gradient and hidden states to the gradient of the weight.
    """
    if eight_bit_product() is None:
        return (
            lambda x, out: torch.mm(x, weight.t(), out=out),
            lambda gradient, out: torch.mm(gradient, weight, out=out),
            lambda gradient, x: gradient.t() @ x,
        )
    rows, columns = pack(weight), pack(weight, columns=True)
    return (
        lambda x, out: packed_linear(x, rows, out),
        lambda gradient, out: packed_linear(gradient, columns, out),
        lambda gradient, x: weight_gradient(gradient, x, with_bias=False)[0],
    )


def smoothed_softmax(logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Turn (N, V) logits in place into the gradient of the smoothed loss; returns loss and likelihood of each row."""
    if kernels.runs_natively(logits):
        return kernels.smoothed_softmax(logits, targets, smoothing)
    wanted, vocab_size = targets[:, None], logits.shape[1]
    scores = logits.float()
    right, mean = scores.gather(1, wanted), scores.mean(dim=-1)
    largest = scores.amax(dim=-1, keepdim=True)
    total = scores.sub_(largest).exp_().sum(dim=-1, keepdim=True)
    normalizer = total.log() + largest
    likelihood = (normalizer - right)[:, 0]
    probabilities = scores.mul_(total.reciprocal()).sub_(smoothing / vocab_size)
    logits.copy_(probabilities.scatter_add_(1, wanted, torch.full_like(right, smoothing - 1.0)))
    return (1.0 - smoothing) * likelihood + smoothing * (normalizer[:, 0] - mean), likelihood
