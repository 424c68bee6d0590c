"""Measure which inputs the last output depends on: true gradients through one layer and through a stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import nn

from dikkat.lessons.comparison.kinds import Cell, Kind
from dikkat.lessons.comparison.layers import build_layer

COMPONENTS: Final = 64


@dataclass(frozen=True, slots=True)
class Reach:
    """Hold the derivative of the last output with respect to each input."""

    kind: Kind
    layers: int
    sizes: tuple[float, ...]
    """Frobenius norm of the matrix of derivatives, for each input from the first."""

    @property
    def length(self) -> int:
        """Return the number of inputs."""
        return len(self.sizes)

    @property
    def earliest(self) -> int:
        """Return the first input, from 1, that the last output depends on."""
        return next(number for number, size in enumerate(self.sizes, 1) if size > 0.0)

    @property
    def reached(self) -> int:
        """Return how many inputs the last output depends on."""
        return sum(size > 0.0 for size in self.sizes)


def reach(kind: Kind, layers: int, length: int, width: int, *, kernel: int, cell: Cell, seed: int) -> Reach:
    """Compute derivatives through a stack of `layers` new layers without activations between, in float64.

    A zero is the absence of a path, not rounding. Of B equal rows (B, S, D), row b gives component b of the last
    output; of wide outputs the first `COMPONENTS` are taken.
    """
    stack = nn.Sequential(
        *(build_layer(kind, width, kernel=kernel, cell=cell, seed=seed + layer) for layer in range(layers))
    ).double()
    generator = torch.Generator().manual_seed(seed)
    one = torch.randn(1, length, width, generator=generator, dtype=torch.float64)
    x = one.repeat(min(width, COMPONENTS), 1, 1).requires_grad_()
    # (B, S, D) -> (B, D) -> its diagonal
    stack(x)[:, -1].diagonal().sum().backward()
    assert x.grad is not None
    # (B outputs, S, D inputs) -> (S)
    return Reach(kind, layers, tuple(x.grad.square().sum(dim=(0, 2)).sqrt().tolist()))
