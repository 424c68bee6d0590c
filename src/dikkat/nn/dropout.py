"""Dropout: random zeros in training, whose mask is a pure function of PyTorch's generator."""

from __future__ import annotations

from torch import Tensor, nn

from dikkat.kernels import dropout as kernel


def dropout(x: Tensor, probability: float) -> Tensor:
    """Drop entries of `x` with `probability` and scale the rest to keep the mean (Srivastava et al. 2014).

    Raises `ValueError` for a probability outside [0, 1).
    """
    return kernel.dropout(x, checked_probability(probability))


def checked_probability(probability: float) -> float:
    """Return the probability. Raises `ValueError` if it lies outside [0, 1): at 1 nothing could keep the mean."""
    if not 0.0 <= probability < 1.0:
        raise ValueError(f"dropout probability must lie in [0, 1), not {probability}")
    return probability


class Dropout(nn.Module):
    """Dropout of tensors of any shape in training, identity in evaluation (Srivastava et al. 2014).

    Raises `ValueError` for a probability outside [0, 1).
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = checked_probability(probability)

    def forward(self, x: Tensor) -> Tensor:
        """Drop entries of `x`."""
        return kernel.dropout(x, self.probability if self.training else 0.0)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Compute `residual + dropout(x)` in one pass over memory."""
        return kernel.dropout(x, self.probability if self.training else 0.0, residual)

    def extra_repr(self) -> str:
        """Show the probability in the module's text."""
        return f"probability={self.probability}"
