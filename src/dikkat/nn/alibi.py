"""ALiBi: attention that is biased against distance, with no position in the embeddings."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dikkat.nn.masks import distances


def alibi_slopes(num_heads: int) -> list[float]:
    """Return the slopes 2^(-8/H), 2^(-16/H), ...; where H is not a power of two, the missing ones lie between."""
    power = 1 << (num_heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * head / power) for head in range(1, power + 1)]
    between = [2.0 ** (-4.0 * head / power) for head in range(1, 2 * (num_heads - power), 2)]
    return slopes + between


class AlibiBias(nn.Module):
    """A bias of `-slope * |distance|` for each head, added to the scaled scores (Press et al. 2022, section 3).

    Without the causal mask it is the symmetric form.
    """

    slopes: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.tensor(alibi_slopes(num_heads)), persistent=False)

    def forward(self, query: Float[Tensor, "B H T K"], source_length: int) -> Float[Tensor, "H T S"]:
        """Compute the bias of T queries, the last of `source_length` positions."""
        away = distances(query.shape[-2], source_length, device=query.device).abs()
        return -self.slopes[:, None, None] * away
