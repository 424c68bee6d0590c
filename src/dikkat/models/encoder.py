"""A stack of encoder blocks."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Bool, Float
from torch import Tensor, nn

from dikkat.nn.blocks import EncoderBlock


class Encoder(nn.Module):
    """Blocks in order, then `final_norm`: a LayerNorm for pre-norm blocks, `Identity` for post-norm ones."""

    def __init__(self, blocks: Sequence[EncoderBlock], final_norm: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = final_norm

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "B S D"]:
        for block in self.blocks:
            x = block(x, mask)
        return self.final_norm(x)
