"""The loss over the vocabulary and its exact gradients, a chunk of rows at a time that stays near the processor."""

from __future__ import annotations

import torch
from torch import Tensor

from dikkat.native import kernels

CHUNK_ENTRIES = 1 << 24
"""Logits in one chunk: 32 MiB of bfloat16. Fewer would stay nearer, but the weights' gradient is added once a chunk."""


class ExactChunks:
    """Loss and gradients of (N, D) hidden states before a vocabulary's weight (V, D), in the type of both."""

    def __init__(self, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, *, learning: bool) -> None:
        self._hidden, self._weight, self._targets, self._smoothing = hidden, weight, targets, smoothing
        self._learning = learning
        self.rows = max(16, CHUNK_ENTRIES // weight.shape[0])
        self._space = hidden.new_empty(min(self.rows, hidden.shape[0]), weight.shape[0])
        self.of_hidden = torch.empty_like(hidden)
        self.of_weight = torch.zeros_like(weight, dtype=torch.float32)

    def take(self, rows: slice) -> tuple[Tensor, Tensor]:
        """Loss and likelihood of each of these rows; where it is learning, their part of the gradients is added."""
        hidden = self._hidden[rows]
        logits = torch.mm(hidden, self._weight.t(), out=self._space[: hidden.shape[0]])
        found = smoothed_softmax(logits, self._targets[rows], self._smoothing)
        if self._learning:
            torch.mm(logits, self._weight, out=self.of_hidden[rows])
            self.of_weight += logits.t() @ hidden
        return found


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
