"""A stack of encoder blocks."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dikkat.nn.blocks import EncoderBlock
from dikkat.nn.cache import SelfAttentionCache
from dikkat.nn.positioned_blocks import PositionedEncoderBlock


class Encoder(nn.Module):
    """Run encoder blocks, then `final_norm`: a LayerNorm for pre-norm blocks, `Identity` for post-norm ones."""

    def __init__(self, blocks: Sequence[EncoderBlock], final_norm: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = final_norm

    @property
    def adds_positions(self) -> bool:
        """Return whether a block adds positions to its input."""
        return any(isinstance(block, PositionedEncoderBlock) for block in self.blocks)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "..."] | None = None,
        caches: Sequence[SelfAttentionCache] | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B S D"]:
        """Return the hidden states (B, S, D).

        With `caches`, one a block, the positions of `x` follow those read before.

        Without them, `position_ids` may be the positions of `x` where some were left out, if the attention takes them.
        """
        if caches is None:
            for block in self.blocks:
                x = block(x, mask, position_ids=position_ids)
        else:
            for block, cache in zip(self.blocks, caches, strict=True):
                x = block(x, mask, cache)
        return self.final_norm(x)
