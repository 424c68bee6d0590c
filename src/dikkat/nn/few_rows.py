"""Products of few rows, rounded as those of many are.

On a CPU the libraries behind PyTorch add up in another order where a product has few rows, or a softmax few entries. A
short sentence would then change, in its last bits, with the padding that lengthens it. So it gets rows of zeros.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from dikkat.nn.eight_bit import Gate, eight_bit_product
from dikkat.nn.narrow import learns_narrowly, narrow_linear

POSITIONS = 16
"""From so many queries and keys on, attention no longer depends on their number; a softmax takes sixteen at a time."""


def fewest_rows() -> int:
    """From so many rows on a matrix product no longer does: seen with up to 16 threads, which share the rows."""
    return max(16, 2 * torch.get_num_threads())


class Projection(nn.Linear):
    """`nn.Linear`, whose result at a position does not depend on the length of the sequence; see `project`."""

    def forward(
        self, x: Float[Tensor, "*rows D"], *, rectifies: bool = False, gate: Gate | None = None
    ) -> Float[Tensor, "*rows E"]:
        return project(x, self.weight, self.bias, rectifies=rectifies, gate=gate)


def output_layer(inputs: int, outputs: int, projects: bool, bias: bool) -> Projection | nn.Identity:
    """A projection, or nothing. Raises `ValueError` for two widths with nothing between them."""
    if projects:
        return Projection(inputs, outputs, bias=bias)
    if inputs != outputs:
        raise ValueError(
            f"without an output projection num_heads x head_dim must be model_dim = {outputs}, not {inputs}"
        )
    return nn.Identity()


def project(
    x: Float[Tensor, "*rows D"],
    weight: Float[Tensor, "E D"],
    bias: Float[Tensor, "E"] | None = None,
    *,
    rectifies: bool = False,
    gate: Gate | None = None,
) -> Float[Tensor, "*rows E"]:
    """`x weight^T + bias`, and its ReLU where it `rectifies`; a `gate` is for products in eight bits alone.

    Of a single position, as in a step of decoding, by the fastest way there is.
    """
    if (product := eight_bit_product()) is not None:
        return product(x, weight, bias, rectifies=rectifies, gate=gate)
    if learns_narrowly(x, weight, bias):
        return narrow_linear(x, weight, bias, rectifies=rectifies)
    found = _product(x, weight, bias)
    return F.relu(found) if rectifies else found


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if x.dim() < 3 or x.shape[-2] == 1 or not _rounds(x):
        return F.linear(x, weight, bias)
    rows, fewest = x.shape[:-1].numel(), fewest_rows()
    if rows == 0 or rows >= fewest:
        return F.linear(x, weight, bias)
    enough = F.pad(x.reshape(rows, -1), (0, 0, 0, fewest - rows))
    return F.linear(enough, weight, bias)[:rows].view(*x.shape[:-1], -1)


def lengthened(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S E"],
    mask: Bool[Tensor, "..."] | None,
    bias: Float[Tensor, "..."] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """The same with `POSITIONS` queries and keys at least, where what was added is hidden; a single query stays one."""
    targets, sources = query.shape[-2], key.shape[-2]
    if targets == 1 or not _rounds(query) or min(targets, sources) >= POSITIONS:
        return query, key, value, mask, bias
    below, beside = max(0, POSITIONS - targets), max(0, POSITIONS - sources)
    if mask is None:
        mask = torch.ones(1, sources, dtype=torch.bool, device=key.device)
    mask = F.pad(mask.expand(*mask.shape[:-1], sources), (0, beside))
    if mask.dim() > 1 and mask.shape[-2] > 1:
        mask = F.pad(mask, (0, 0, 0, below))
    if bias is not None:
        bias = F.pad(bias.expand(*bias.shape[:-2], targets, sources), (0, beside, 0, below))
    key, value = (F.pad(x, (0, 0, 0, beside)) for x in (key, value))
    return F.pad(query, (0, 0, 0, below)), key, value, mask, bias


def _rounds(x: Tensor) -> bool:
    """Whether the order of the sums can be seen at all: half precision rounds far more coarsely."""
    return x.device.type == "cpu" and x.dtype == torch.float32
