"""Products and softmax that round a row alike whatever the length of its sequence.

On a CPU the libraries beneath PyTorch add up in another order where a product has few rows, or a softmax few entries. A
short sentence would then change, in its last bits, with the padding that lengthens it. So it gets rows of zeros.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

MIN_LENGTH = 16
"""From so many queries and keys on, attention no longer depends on their number; a softmax takes sixteen at a time."""


def min_rows() -> int:
    """Return the number of rows from which on a product rounds all alike, as seen with up to 16 threads."""
    return max(16, 2 * torch.get_num_threads())


def linear(
    x: Float[Tensor, "*rows D"], weight: Float[Tensor, "E D"], bias: Float[Tensor, "E"] | None
) -> Float[Tensor, "*rows E"]:
    """Compute `x weight^T + bias`; a sequence (..., T, D) of few rows is padded, unless it is one step of decoding."""
    if x.dim() < 3 or x.shape[-2] == 1 or not _shows_order(x):
        return F.linear(x, weight, bias)
    rows, fewest = x.shape[:-1].numel(), min_rows()
    if rows == 0 or rows >= fewest:
        return F.linear(x, weight, bias)
    padded = F.pad(x.reshape(rows, -1), (0, 0, 0, fewest - rows))
    return F.linear(padded, weight, bias)[:rows].view(*x.shape[:-1], -1)


def softmax(scores: Float[Tensor, "*rows S"]) -> Float[Tensor, "*rows S"]:
    """Compute a softmax over at least `MIN_LENGTH` entries; PyTorch takes fewer one by one, in five times the time."""
    entries = scores.shape[-1]
    if entries >= MIN_LENGTH:
        return torch.softmax(scores, dim=-1)
    padded = F.pad(scores, (0, MIN_LENGTH - entries), value=-torch.inf)
    return torch.softmax(padded, dim=-1)[..., :entries]


def pad_to_min_length(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S E"],
    mask: Bool[Tensor, "..."] | None,
    bias: Float[Tensor, "..."] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """Lengthen all to at least `MIN_LENGTH` queries and keys, hiding what was added; a single query stays one."""
    targets, sources = query.shape[-2], key.shape[-2]
    if targets == 1 or not _shows_order(query) or min(targets, sources) >= MIN_LENGTH:
        return query, key, value, mask, bias
    below, right = max(0, MIN_LENGTH - targets), max(0, MIN_LENGTH - sources)
    if mask is None:
        mask = torch.ones(1, sources, dtype=torch.bool, device=key.device)
    mask = F.pad(mask.expand(*mask.shape[:-1], sources), (0, right))
    if mask.dim() > 1 and mask.shape[-2] > 1:
        mask = F.pad(mask, (0, 0, 0, below))
    if bias is not None:
        bias = F.pad(bias.expand(*bias.shape[:-2], targets, sources), (0, right, 0, below))
    key, value = (F.pad(x, (0, 0, 0, right)) for x in (key, value))
    return F.pad(query, (0, 0, 0, below)), key, value, mask, bias


def _shows_order(x: Tensor) -> bool:
    """Tell whether the order of sums can be seen at all: half precision rounds far more coarsely."""
    return x.device.type == "cpu" and x.dtype == torch.float32
