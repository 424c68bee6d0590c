"""Blocks that add the positions to their input once more, for stacks so deep that those of the embeddings fade."""

from __future__ import annotations

from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from dikkat.nn.blocks import DecoderBlock, EncoderBlock
from dikkat.nn.cache import CrossAttentionCache, SelfAttentionCache
from dikkat.nn.named_positions import Positions


class PositionedEncoderBlock(EncoderBlock):
    """An `EncoderBlock` whose input gets `positions` added, as in every layer of Dehghani et al. (2019, section 2.1).

    `positions` may be shared by all blocks or be each one's own; the other choices are those of `EncoderBlock`.
    """

    def __init__(self, positions: Positions, *sizes: Any, **choices: Any) -> None:
        super().__init__(*sizes, **choices)
        self.positions = positions

    def forward(
        self,
        x: Float[Tensor, "*B S D"],
        mask: Bool[Tensor, "..."] | None = None,
        cache: SelfAttentionCache | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "*B S D"]:
        x = self.positions(x, offset=0 if cache is None else cache.length, position_ids=position_ids)
        # where distances count, attention goes by the row and what the mask says
        return super().forward(x, mask, cache, position_ids if self.self_attention.supports_position_ids else None)


class PositionedDecoderBlock(DecoderBlock):
    """A `DecoderBlock` whose input gets `positions` added (Dehghani et al. 2019, section 2.1).

    See `PositionedEncoderBlock`.
    """

    def __init__(self, positions: Positions, *sizes: Any, **choices: Any) -> None:
        super().__init__(*sizes, **choices)
        self.positions = positions

    def forward(
        self,
        x: Float[Tensor, "*B T D"],
        memory: Float[Tensor, "*B S D"],
        self_mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*B T D"]:
        return super().forward(self.positions(x), memory, self_mask, memory_mask)

    def step(
        self,
        x: Float[Tensor, "R 1 D"],
        cache: SelfAttentionCache,
        memory: CrossAttentionCache,
        memory_mask: Bool[Tensor, "B 1 1 S"],
    ) -> Float[Tensor, "R 1 D"]:
        """Feed every row one vector at position `cache.length`; see `DecoderBlock.step`."""
        return super().step(self.positions(x, offset=cache.length), cache, memory, memory_mask)
