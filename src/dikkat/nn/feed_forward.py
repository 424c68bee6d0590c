"""The position-wise feed-forward network: the same two layers at every position."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from dikkat.kernels.int8_linear import int8_linear_relu_linear
from dikkat.nn.linear import Linear, training_products

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
    "tanh": torch.tanh,
}
"""Activations by name."""

# The gated feed-forward network, in which one half of the hidden layer opens and closes the other.

GATES = {
    "geglu": ACTIVATIONS["gelu"],
    "geglu_tanh": ACTIVATIONS["gelu_tanh"],
    "swiglu": ACTIVATIONS["silu"],
}


class GatedFeedForward(nn.Module):
    """A network `outer(gate(W x + b) * (V x + c))` (Shazeer 2020), by the `gate` of its activation.

    That is GELU ("geglu"), its approximation ("geglu_tanh") or SiLU ("swiglu"). W and V are the two halves of one
    packed matrix. At the same F it has half as many weights again as `FeedForward`. Raises `ValueError` for another
    activation.
    """

    def __init__(self, model_dim: int, feed_forward_dim: int, *, activation: str = "swiglu") -> None:
        super().__init__()
        if activation not in GATES:
            raise ValueError(f"activation must be one of {', '.join(GATES)}, not {activation!r}")
        self.activation = activation
        self.inner = Linear(model_dim, 2 * feed_forward_dim)
        self.outer = Linear(feed_forward_dim, model_dim)

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """Apply the network to every position."""
        # (*rows, 2 F) -> 2 x (*rows, F)
        gate, content = self.inner(x).chunk(2, dim=-1)
        return self.outer(GATES[self.activation](gate) * content)


_PLAIN = ("relu", "gelu", "gelu_tanh", "silu")


class FeedForward(nn.Module):
    """A feed-forward network: linear, activation, linear (Vaswani et al. 2017, section 3.3).

    "gelu" is exact, "gelu_tanh" its approximation by a tanh (Hendrycks and Gimpel 2016, section 2), as in GPT-2;
    "silu" is `x sigmoid(x)` (section 2 there), which Marian calls swish.
    Raises `ValueError` for another activation.
    """

    def __init__(
        self, model_dim: int, feed_forward_dim: int, *, activation: str = "relu", output_dim: int | None = None
    ) -> None:
        super().__init__()
        if activation not in _PLAIN:
            raise ValueError(f"activation must be one of {', '.join(_PLAIN)}, not {activation!r}")
        self.activation = activation
        self.inner = Linear(model_dim, feed_forward_dim)
        self.outer = Linear(feed_forward_dim, model_dim if output_dim is None else output_dim)

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows E"]:
        """Apply the network to every position."""
        if self.activation != "relu":
            return self.outer(ACTIVATIONS[self.activation](self.inner(x)))
        if training_products(self.inner) == "int8":
            inner, outer = ((layer.weight, layer.bias) for layer in (self.inner, self.outer))
            return int8_linear_relu_linear(x, inner, outer)
        return self.outer(self.inner(x, relu=True))
