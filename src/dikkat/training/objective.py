"""Label-smoothed cross-entropy over the vocabulary, computed with its gradient in chunks that stay in cache.

The (tokens x vocabulary) matrix of float32 logits is the largest of a small model; it is never built.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dikkat.nn.eight_bit import eight_bit_product
from dikkat.training.drawn_chunks import DrawnChunks
from dikkat.training.exact_chunks import ExactChunks


def smoothed_cross_entropy(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    targets: Int[Tensor, "N"],
    smoothing: float,
    bias: Float[Tensor, "V"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sum over tokens of the smoothed loss, and of the plain negative log-likelihood (no gradient), in nats.

    The smoothed target puts `1 - smoothing` on the right entry and spreads `smoothing` evenly over all V (Szegedy et
    al. 2016, section 7). Statistics are float32; the products run in the type of `hidden`. Where products are in eight
    bits, so are the logits, and gradients are drawn by PyTorch's generator; their mean is the exact one. A `bias` is
    one more column of the weight, whose input is 1.
    """
    if bias is not None:
        hidden = torch.cat((hidden, hidden.new_ones(len(hidden), 1)), dim=1)
        weight = torch.cat((weight, bias[:, None]), dim=1)
    loss, likelihood = _SmoothedCrossEntropy.apply(hidden, weight, targets, smoothing)
    return loss, likelihood


class _Chunks(Protocol):
    """Gathers the gradients of N rows, `rows` of them at a time."""

    rows: int
    of_hidden: Tensor
    of_weight: Tensor

    def take(self, rows: slice) -> tuple[Tensor, Tensor]: ...


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Both gradients are made on the way forward, a chunk at a time, and only scaled on the way back."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        loss = torch.zeros((), dtype=torch.float32, device=hidden.device)
        likelihood = torch.zeros_like(loss)
        kind = ExactChunks if eight_bit_product() is None else DrawnChunks
        chunks: _Chunks = kind(hidden, weight, targets, smoothing, learning=any(ctx.needs_input_grad))
        for start in range(0, hidden.shape[0], chunks.rows):
            chunk_loss, chunk_likelihood = chunks.take(slice(start, start + chunks.rows))
            loss += chunk_loss.sum()
            likelihood += chunk_likelihood.sum()
        ctx.save_for_backward(chunks.of_hidden, chunks.of_weight)
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None]:
        of_hidden, of_weight = ctx.saved_tensors
        dtype = of_hidden.dtype
        # of what is differentiated itself, the usual case; a GPU is not asked
        if scale.device.type == "cpu" and scale.item() == 1.0:
            return of_hidden, of_weight.to(dtype), None, None
        return of_hidden * scale.to(dtype), (of_weight * scale).to(dtype), None, None
