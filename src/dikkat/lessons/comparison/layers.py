"""The three layers, each from (B, S, D) to (B, S, D), so that they can replace each other."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dikkat.lessons.comparison.kinds import Cell, Kind
from dikkat.nn.multi_head_attention import MultiHeadAttention

_CELLS: dict[Cell, type[nn.GRU] | type[nn.RNN]] = {"gru": nn.GRU, "rnn": nn.RNN}


class CausalConvolution(nn.Module):
    """Compute output t from the inputs t-k+1 ... t; the input is padded with zeros (van den Oord et al.

    2016, section 2.1).
    """

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(width, width, kernel)

    def forward(self, x: Tensor) -> Tensor:
        # (B, S, D) -> (B, D, k - 1 + S) -> (B, D, S) -> (B, S, D)
        """Convolve x (B, S, D) to (B, S, D)."""
        padded = F.pad(x.transpose(1, 2), (self.convolution.kernel_size[0] - 1, 0))
        output: Tensor = self.convolution(padded)
        return output.transpose(1, 2)


class Recurrence(nn.Module):
    """Compute state t from state t-1 and input t, with a gated recurrent unit (Cho et al. 2014) or Elman's cell."""

    def __init__(self, width: int, cell: Cell) -> None:
        super().__init__()
        self.cell = _CELLS[cell](width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Run the recurrence over x (B, S, D); return all states (B, S, D)."""
        states: Tensor = self.cell(x)[0]
        return states


def build_layer(kind: Kind, width: int, *, kernel: int, cell: Cell, seed: int) -> nn.Module:
    """Build a layer with PyTorch's own initial weights, drawn from `seed`; attention has one head and no mask.

    The state of the global generator is left unchanged.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if kind == "convolution":
            return CausalConvolution(width, kernel)
        return Recurrence(width, cell) if kind == "recurrence" else MultiHeadAttention(width, num_heads=1)


def count_parameters(module: nn.Module) -> int:
    """Return the number of parameters of `module`."""
    return sum(parameter.numel() for parameter in module.parameters())
