"""What the native kernels for drawn gradients compute, with PyTorch: a dense matrix, most of whose entries are zero."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SAMPLES = 128
"""Shares of a row. Twice as many take a third of the gradient's noise and a sixth more time."""


@dataclass(frozen=True, slots=True, eq=False)
class DenselyDrawn:
    """The drawn gradient of (N, V) logits, but for the `-smoothing / V` of every entry."""

    matrix: Tensor
    """float32, (N, V)."""

    def times(self, weight: Tensor, begin: Tensor) -> Tensor:
        """(N, D): this matrix times `weight` (V, D), plus float32 `begin` (D)."""
        return torch.addmm(begin, self.matrix, weight.float()).to(weight.dtype)

    def add_transposed_times(self, hidden: Tensor, to: Tensor) -> None:
        """To float32 `to` (V, D), this matrix transposed times `hidden` (N, D)."""
        to.addmm_(self.matrix.t(), hidden.float())

    def dense(self) -> Tensor:
        return self.matrix


def drawn_softmax(
    logits: Tensor, targets: Tensor, smoothing: float, offsets: Tensor
) -> tuple[Tensor, Tensor, DenselyDrawn]:
    """Loss and likelihood of each row of (N, V) logits, and the gradient of the loss, drawn from `offsets` (N)."""
    scores = logits.float()
    wanted = targets[:, None]
    normalizer = scores.logsumexp(dim=-1, keepdim=True)
    likelihood = normalizer - scores.gather(1, wanted)
    loss = (1.0 - smoothing) * likelihood + smoothing * (normalizer - scores.mean(dim=-1, keepdim=True))
    # laid end to end in float64: in float32 the last entries of a long row would be lost
    ends = (scores - normalizer).double().exp_().mul_(SAMPLES).cumsum(dim=-1).add_(offsets[:, None]).floor_()
    counts = ends.diff(dim=-1, prepend=torch.zeros_like(ends[:, :1]))
    matrix = counts.div_(SAMPLES).float().scatter_add_(1, wanted, smoothing - 1.0 + 0.0 * likelihood)
    return loss[:, 0], likelihood[:, 0], DenselyDrawn(matrix)
