"""A stack of decoder blocks, for a whole target or one step at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from jaxtyping import Bool, Float
from torch import Tensor, nn

from dikkat.nn.blocks import CrossAttendingBlock
from dikkat.nn.cache import CrossAttentionCache, DecoderCache
from dikkat.nn.masks import causal_mask, key_mask


class Decoder(nn.Module):
    """Run decoder blocks, then `final_norm`: a LayerNorm for pre-norm blocks, `Identity` for post-norm ones."""

    def __init__(self, blocks: Sequence[CrossAttendingBlock], final_norm: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = final_norm

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"],
        memory_mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return hidden states (B, T, D) of all positions, under the causal mask (fault F36)."""
        mask = causal_mask(x.shape[1], device=x.device)
        for block in self.blocks:
            x = block(x, memory, mask, memory_mask)
        return self.final_norm(x)

    def read_source(
        self, memory: Float[Tensor, "B S D"], source_mask: Bool[Tensor, "B S"]
    ) -> tuple[list[CrossAttentionCache], Bool[Tensor, "B 1 1 S"]]:
        """Return keys and values of the source for every layer, and the mask of where they may be attended to."""
        cross = [cast(CrossAttendingBlock, block).cross_attention.project_memory(memory) for block in self.blocks]
        return cross, key_mask(source_mask)

    def start_cache(
        self, memory: Float[Tensor, "B S D"], source_mask: Bool[Tensor, "B S"], rows_per_sentence: int = 1
    ) -> DecoderCache:
        """Project keys and values of the source once for every layer, and return the cache."""
        cross, mask = self.read_source(memory, source_mask)
        for layer in cross:
            # every step multiplies by these: laid out by head once, not copied at each step
            layer.key, layer.value = layer.key.contiguous(), layer.value.contiguous()
        return DecoderCache(cross, mask, rows_per_sentence)

    def step(self, x: Float[Tensor, "R 1 D"], cache: DecoderCache) -> Float[Tensor, "R 1 D"]:
        """Return the hidden states (R, 1, D) of one more position of R hypotheses."""
        for block, own, cross in zip(self.blocks, cache.self_attention, cache.cross_attention, strict=True):
            x = cast(CrossAttendingBlock, block).step(x, own, cross, cache.mask)
        return self.final_norm(x)
