"""The gated feed-forward network, in which one half of the hidden layer opens and closes the other."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from dikkat.nn.linear import Linear

GATES: dict[str, Callable[[Tensor], Tensor]] = {"geglu": F.gelu, "swiglu": F.silu}


class GatedFeedForward(nn.Module):
    """A network `outer(gate(W x + b) * (V x + c))` (Shazeer 2020), with `gate` GELU ("geglu") or SiLU ("swiglu").

    W and V are the two halves of one packed matrix. At the same F it has half as many weights again as `FeedForward`.
    Raises `ValueError` for another activation.
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
