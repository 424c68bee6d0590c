"""What the native encoder does, by PyTorch in bfloat16; see `layers_by_torch`."""

from __future__ import annotations

import torch
from jaxtyping import BFloat16, Bool, Float
from torch import Tensor
from torch.nn import functional as F

from dikkat.native.encoder import EncoderWeights
from dikkat.native.layers_by_torch import Activation, PackedLinear, SubLayers, whole_blocks

KEYS = 16
"""PyTorch's attention in bfloat16 takes twice as long where the number of keys is no multiple of so many."""


class EncoderByTorch:
    """An encoder of packed weights."""

    def __init__(self, weights: EncoderWeights) -> None:
        """Raises `ValueError` for weights that are no numbers."""
        self._heads, self._betas = weights.num_heads, weights.betas
        self._stream = SubLayers(weights.norms, post_norm=weights.post_norm)
        activation: Activation = "gelu" if weights.gelu else "relu"
        self._linears = [
            PackedLinear(each, activation if place % 4 == 2 else "none") for place, each in enumerate(weights.linears)
        ]

    def encode(self, embedded: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """States, in the type of `embedded`; zeros at padding."""
        batch, length, width = embedded.shape
        room = -length % KEYS
        hidden = additive(F.pad(mask, (0, room)))
        rows = batch * (length + room)
        # (B, S, D) -> (N, D)
        x = F.pad(embedded.to(torch.bfloat16), (0, 0, 0, room)).flatten(0, 1)
        blocks = [self._stream.begin(block) for block in whole_blocks(x)]
        for layer, beta in enumerate(self._betas):
            made = torch.cat([self._linears[4 * layer](normed) for _, normed in blocks])
            # (N, 3 H K) -> (B, S, 3, H, K) -> (3, B, H, S, K)
            heads = made[:rows].view(batch, length + room, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], attn_mask=hidden, scale=beta)
            parts = whole_blocks(mixed.transpose(1, 2).reshape(rows, -1))
            blocks = [self._after_attention(layer, x, part) for (x, _), part in zip(blocks, parts, strict=True)]
        states = torch.cat([normed for _, normed in blocks])[:rows].view(batch, length + room, width)[:, :length]
        return states.to(embedded.dtype).masked_fill_(~mask.unsqueeze(2), 0.0)

    def _after_attention(
        self, layer: int, x: BFloat16[Tensor, "N D"], mixed: BFloat16[Tensor, "N D"]
    ) -> tuple[Tensor, Tensor]:
        outward, inner, outer = self._linears[4 * layer + 1 : 4 * layer + 4]
        x, normed = self._stream.after(2 * layer + 1, outward.added_to(x, mixed))
        return self._stream.after(2 * layer + 2, outer.added_to(x, inner(normed)))


def additive(mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B 1 1 S"]:
    """Minus infinity where nothing may be attended to, in bfloat16."""
    return torch.zeros(mask.shape, dtype=torch.bfloat16).masked_fill_(~mask, -torch.inf)[:, None, None]
