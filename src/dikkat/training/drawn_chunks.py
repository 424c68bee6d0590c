"""The loss over the vocabulary where products are in eight bits: its gradients are drawn."""

from __future__ import annotations

import torch
from torch import Tensor

from dikkat.native.drawn_gradient import drawn_softmax
from dikkat.native.quantized import pack, packed_linear
from dikkat.nn.draws import uniform_numbers

ROWS = 1024
"""Rows of a chunk: more of them leave the cache, fewer are sorted and added more often."""


class DrawnChunks:
    """Loss and gradients of (N, D) hidden states before a vocabulary's weight (V, D), a chunk of rows at a time.

    Logits are products in eight bits; what follows them is not rounded but drawn. In eight bits a row of the gradient
    would keep the target and lose the other thousands of entries, most of which are below half of a 127th of it.
    """

    rows = ROWS

    def __init__(self, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, *, learning: bool) -> None:
        self._hidden, self._weight, self._targets, self._smoothing = hidden, weight, targets, smoothing
        self._learning = learning
        self._packed = pack(weight)
        self._space = hidden.new_empty(min(ROWS, hidden.shape[0]), weight.shape[0])
        self._offsets = uniform_numbers(hidden.shape[0])
        # of the even part of the targets
        even = -smoothing / weight.shape[0]
        self._begin = weight.sum(0, dtype=torch.float32).mul_(even)
        self.of_hidden = torch.empty_like(hidden)
        self.of_weight = hidden.sum(0, dtype=torch.float32).mul_(even).expand(weight.shape).contiguous()

    def take(self, rows: slice) -> tuple[Tensor, Tensor]:
        """Loss and likelihood of each of these rows; where it is learning, their part of the gradients is added."""
        hidden = self._hidden[rows]
        logits = packed_linear(hidden, self._packed, self._space[: hidden.shape[0]])
        loss, likelihood, drawn = drawn_softmax(logits, self._targets[rows], self._smoothing, self._offsets[rows])
        if self._learning:
            self.of_hidden[rows] = drawn.times(self._weight, self._begin)
            drawn.add_transposed_times(hidden, self.of_weight)
        return loss, likelihood
