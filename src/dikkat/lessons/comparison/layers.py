"""The three layers, each from (B, S, D) to (B, S, D), so that they can replace each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat_runtime.errors import msg

# The three kinds of layers that join the positions of a sequence.

Kind = Literal["convolution", "recurrence", "self-attention"]

KINDS: Final[tuple[Kind, ...]] = ("convolution", "recurrence", "self-attention")
GATES: Final = 3
"""D x D matrices of a recurrence for its input, and as many for its state: reset, update and candidate."""


@dataclass(frozen=True, slots=True)
class ComparisonSettings:
    """Hold the sizes of a comparison."""

    lengths: tuple[int, ...] = (256, 512, 1024, 2048, 4096)
    """Ascending lengths."""
    width: int = 64
    kernel: int = 3
    layers: int = 2
    """Layers of the stack that gradients are followed through, next to one layer."""
    seed: int = 0


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
    """Compute state t from state t-1 and input t, with a gated recurrent unit (Cho et al. 2014)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.GRU(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Run the recurrence over x (B, S, D); return all states (B, S, D)."""
        states: Tensor = self.cell(x)[0]
        return states


def build_layer(kind: Kind, width: int, *, kernel: int, seed: int) -> nn.Module:
    """Build a layer with PyTorch's own initial weights, drawn from `seed`; attention has one head and no mask.

    The state of the global generator is left unchanged.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if kind == "convolution":
            return CausalConvolution(width, kernel)
        return Recurrence(width) if kind == "recurrence" else MultiHeadAttention(width, num_heads=1)


# Measure which inputs the last output depends on: true gradients through one layer and through a stack.

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
        return len(self.sizes)

    @property
    def earliest(self) -> int:
        """Return the first input, from 1, that the last output depends on."""
        return next(number for number, size in enumerate(self.sizes, 1) if size > 0.0)

    @property
    def reached(self) -> int:
        """Return how many inputs the last output depends on."""
        return sum(size > 0.0 for size in self.sizes)


def reach(kind: Kind, layers: int, length: int, width: int, *, kernel: int, seed: int) -> Reach:
    """Compute derivatives through a stack of `layers` new layers without activations between, in float64.

    A zero is the absence of a path, not rounding. Of B equal rows (B, S, D), row b gives component b of the last
    output; of wide outputs the first `COMPONENTS` are taken.
    """
    stack = nn.Sequential(
        *(build_layer(kind, width, kernel=kernel, seed=seed + layer) for layer in range(layers))
    ).double()
    generator = torch.Generator().manual_seed(seed)
    one = torch.randn(1, length, width, generator=generator, dtype=torch.float64)
    x = one.repeat(min(width, COMPONENTS), 1, 1).requires_grad_()
    # (B, S, D) -> (B, D) -> its diagonal
    stack(x)[:, -1].diagonal().sum().backward()
    assert x.grad is not None
    # (B outputs, S, D inputs) -> (S)
    return Reach(kind, layers, tuple(x.grad.square().sum(dim=(0, 2)).sqrt().tolist()))


# Count the cost of a layer: multiply-adds, sequential steps and the longest path.
#
# The rows of Vaswani et al. (2017, table 1) with the constants that their O(...) leaves out, and with the projections
# that it leaves out too: `n^2 d` is attention without its four D x D matrices, which cost more while n < 2 d.


@dataclass(frozen=True, slots=True)
class Cost:
    """Hold the cost of one layer of width d over n positions."""

    kind: Kind
    length: int
    width: int
    without_projections: int
    """Multiply-adds of the part that joins positions: the kernel; the state's own matrices; scores and weighted values.
    """
    with_projections: int
    """All multiply-adds of the layer; biases, softmax and activations are not counted."""
    sequential_steps: int
    """Steps that each need the step before."""
    path_length: int
    """Layers, or steps of a recurrence, between the first input and the last output."""


@dataclass(frozen=True, slots=True)
class Formulas:
    """Hold a cost as a formula in n, d and k, with its order."""

    without_projections: str
    with_projections: str
    sequential_steps: str
    path_length: str
    order: str
    """Orders of operations, sequential steps and path length."""


def cost(kind: Kind, length: int, width: int, *, kernel: int) -> Cost:
    """Return the cost of one layer of `kind`; the path of a convolution is that of a stack."""
    if kind == "convolution":
        operations = kernel * length * width**2
        return Cost(kind, length, width, operations, operations, 1, layers_to_join(length, kernel))
    if kind == "recurrence":
        states = GATES * length * width**2
        return Cost(kind, length, width, states, 2 * states, length, length)
    pairs = 2 * length**2 * width
    return Cost(kind, length, width, pairs, pairs + 4 * length * width**2, 1, 1)


def costs(length: int, width: int, *, kernel: int) -> dict[Kind, Cost]:
    return {kind: cost(kind, length, width, kernel=kernel) for kind in KINDS}


def receptive_field(layers: int, kernel: int) -> int:
    """Return how many inputs one output of a stack of convolutions depends on: 1 + L(k - 1)."""
    return 1 + layers * (kernel - 1)


def layers_to_join(length: int, kernel: int) -> int:
    """Return the fewest layers of convolution whose receptive field holds `length` positions.

    `kernel` must be at least 2.
    """
    return max(1, -(-(length - 1) // (kernel - 1)))


FORMULAS: Final[Mapping[Kind, Formulas]] = {
    "convolution": Formulas("k n d²", "k n d²", "1", "⌈(n−1)/(k−1)⌉", "k n d², 1, n/k"),
    "recurrence": Formulas(f"{GATES} n d²", f"{2 * GATES} n d²", "n", "n", "n d², n, n"),
    "self-attention": Formulas("2 n² d", "2 n² d + 4 n d²", "1", "1", "n² d, 1, 1"),
}
"""The costs as text."""

COUNTED: Final = (
    msg("n positions, d width, k kernel. One operation is a multiplication and an addition of matrix products."),
    msg("Projections: the input's matrices of a recurrence; the query, key, value and output matrices of attention."),
    msg(
        "Longest path: layers of convolution, steps of recurrence or layers of attention from the first input to the "
        "last output."
    ),
)
